"""Point-to-point messages that are checked, or held back as by a slow network."""

"""Point-to-point messages that are checked, or held back as by a slow network.

checked     what checked mode adds to a message
slow_link   the network knob on one rank
"""

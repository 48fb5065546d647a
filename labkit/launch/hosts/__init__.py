"""Other hosts: their names, ssh to them, what they tell of themselves, and who ends what runs there."""

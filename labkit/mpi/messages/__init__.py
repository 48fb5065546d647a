"""Point-to-point messages that are checked, or held back as by a slow network.

checked    send and receive, and the trailer by which a receiver knows what was meant
slow_link  the network knob on one rank: when a message is through
"""

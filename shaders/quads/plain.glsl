// <quads>: the device keeps helper lanes for quad operations without being asked.

"""The HTTP interface: routes are thin, what they do lies in the modules beside this package."""

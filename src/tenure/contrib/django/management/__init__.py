"""Where Django looks for commands of an app."""

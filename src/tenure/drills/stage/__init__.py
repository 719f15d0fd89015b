"""The stage: a throw-away schema, real processes, the acts on them, and the scenes made of acts."""

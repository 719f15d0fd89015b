"""The failover drill: a primary is killed under load and its standby promoted; what was acknowledged is counted."""

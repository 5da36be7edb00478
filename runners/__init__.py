"""Who does the work and who may ask for it: API clients and keys, runners and their instances, audit, heartbeats."""

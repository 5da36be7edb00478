"""The pages: thin views over the services and queries that the API uses too."""

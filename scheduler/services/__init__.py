"""The only writers of this app's tables: verbs over lists, called by API, admin, dashboard, commands and workers."""

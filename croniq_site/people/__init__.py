"""Signing in by other ways than a password alone, through django-allauth: second factors and OpenID Connect."""

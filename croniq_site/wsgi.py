"""Django alone: what `runserver` uses and what the ASGI edge hands everything to that it does not answer itself."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "croniq_site.settings")
application = get_wsgi_application()

"""A Django project that does its work in tasks. Only what tasks need is here."""

import os
from pathlib import Path

import django

SECRET_KEY = "of an example"  # noqa: S105
USE_TZ = True
INSTALLED_APPS = ["croniq_tasks", "shop", *([] if django.VERSION >= (6, 0) else ["django_tasks"])]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("SHOP_DATABASE", Path(__file__).with_name("shop.sqlite3")),
    }
}
TASKS = {
    "default": {
        "BACKEND": "croniq_tasks.backend.CroniqBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {
            "url": os.environ.get("CRONIQ_URL", "http://localhost:4000"),
            "api_key": os.environ.get("CRONIQ_API_KEY", "set CRONIQ_API_KEY"),
            "prefix": "shop",
            "job": {"timeout": "10m"},
        },
    }
}

"""The tables of the shop."""

import django.db.models.deletion
from django.db import migrations, models

ID = {"auto_created": True, "primary_key": True, "serialize": False, "verbose_name": "ID"}


class Migration(migrations.Migration):
    """Orders and receipts."""

    operations = [
        migrations.CreateModel(
            "Order", [("id", models.BigAutoField(**ID)), ("paid", models.BooleanField(default=False))]
        ),
        migrations.CreateModel(
            "Receipt",
            [
                ("id", models.BigAutoField(**ID)),
                ("fence", models.BigIntegerField()),
                ("order", models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, to="shop.order")),
            ],
        ),
    ]

"""The tables of the shop, after those of Tenure."""

import django.db.models.deletion
from django.db import migrations, models

ID = {"auto_created": True, "primary_key": True, "serialize": False, "verbose_name": "ID"}


class Migration(migrations.Migration):
    """Depends on a migration of Tenure by its name, as any data migration that enqueues would."""

    dependencies = [("tenure", "0001_inbox")]
    operations = [
        migrations.CreateModel(
            "Order", [("id", models.BigAutoField(**ID)), ("paid", models.BooleanField(default=False))]
        ),
        migrations.CreateModel(
            "Receipt",
            [
                ("id", models.BigAutoField(**ID)),
                ("order", models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, to="shop.order")),
            ],
        ),
    ]

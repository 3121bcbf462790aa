package config

// help explains each setting in one line, for --help, the example file and the reference.
var help = map[string]string{ //nolint:gosec // names of settings, and no secrets
	"database_url":      "PostgreSQL, as postgres://user@host:port/database",
	"database_url_file": "file with the database URL, such as a mounted secret, instead of database_url",
	"insecure_database": "connect to a database on another machine without verified TLS, " +
		"for use where something else protects the connection",
	"listen": "address of the API, health checks and metrics; health checks and metrics need no key",
	"metrics_listen": "separate address for metrics, which show the names of namespaces and queues; " +
		"empty means the address of listen if only this machine reaches it, else metrics are not served",
	"tls_cert": "file with the certificate for listen and its chain, PEM; it is reloaded when it changes",
	"tls_key":  "file with the key of tls_cert, PEM",
	"canary": "keep a job that does nothing every 10 s, in the namespace belfry-canary, so that alerts on lateness " +
		"have data in a quiet cluster; false removes it when the node starts",
	"insecure_listen": "listen without TLS on an address that others can reach, " +
		"for use behind a proxy that terminates TLS",
	"name":        "name of this node, for people; empty means the host name",
	"slots":       "maximum number of attempts in progress on this node",
	"connections": "maximum number of database connections for running jobs; a node has three more, for its session and for wake-ups",
	"keep_history": "how long finished runs are kept; set it to the same value on all nodes, " +
		"because any node deletes older runs",
	"drain": "how long a stopping node waits for attempts in progress",
	"wait_for_schema": "how long a starting node waits for belfry migrate if the schema is older than it needs, " +
		"for example in Kubernetes, where both start at the same time; 0s means that it ends with an error",
	"look_ahead":  "how far ahead of their time runs are planned",
	"session_ttl": "how long after its last renewal a node counts as dead",
	"worker_ttl": "how long after its last heartbeat a worker counts as dead; " +
		"workers send three heartbeats in that time",

	"targets.allow": "where http targets may connect to in addition to the public internet, " +
		"for example a private network; separated by commas. NAMESPACE=10.1.0.0/16 is for jobs of that namespace only",
	"targets.deny": "where http targets may not connect to, whatever targets.allow says: networks and host:port, separated by " +
		"commas; the database, the addresses that the node listens on and the addresses of its machine are denied " +
		"without being listed, unless targets.allow names them with their port",
	"targets.per_host": "maximum number of deliveries of one namespace to one host or broker in progress on this node; " +
		"0 means no limit other than slots, of which one host may use three fifths",
	"targets.secrets_in_clear": "what happens to jobs that would send a stored secret to another machine without TLS: " +
		"warn means a warning when such a job is saved; refuse means that it cannot be saved, and that its runs fail",

	"secrets.keyset": "keys that encrypt the secrets of targets, as printed by belfry secret keyset, " +
		"the same on all nodes; empty means none",
	"secrets.keyset_file": "file with the keys, such as a mounted secret, instead of secrets.keyset",

	"api.url": "where targets reach the API to report on runs that they have accepted, " +
		"for example https://belfry.example.com; empty means the address of listen",
	"api.key_rate":  "maximum number of requests of one key per second",
	"api.key_burst": "maximum number of requests of one key at once, after a quiet period",
	"api.connections": "maximum number of database connections for the API, in addition to connections; " +
		"requests of users never take the connections of runs",
	"api.requests": "maximum number of requests in progress; further requests are rejected and may retry",

	"oidc.issuer": "identity provider (OpenID Connect) through which people log in to the web UI, " +
		"exactly as the provider names itself; empty means that only keys log in",
	"oidc.name":               "name of the provider on the login page",
	"oidc.client_id":          "id of Belfry at the provider",
	"oidc.client_secret":      "secret of Belfry at the provider; empty means a public client",
	"oidc.client_secret_file": "file with the secret, such as a mounted secret, instead of oidc.client_secret",
	"oidc.scopes":             "what the provider is asked for, separated by spaces; some need groups as well",
	"oidc.name_claim":         "claim with the name of a person in the audit log; an unverified email is not used",
	"oidc.groups_claim":       "claim with the groups of a person",
	"oidc.roles": "what groups may do, each as GROUP = NAMESPACE:ROLE, separated by semicolons or line ends; " +
		"the group * is everyone whom the provider lets log in",

	"command.enabled": "let jobs run commands on this node, in a sandbox; set it to the same value on all nodes: " +
		"otherwise those that have it get all partitions with such runs",
	"command.programs": "programs that jobs may run: files, and directories with everything below them, separated by :; " +
		"NAMESPACE=/usr/bin/report is for jobs of that namespace only",
	"command.paths": "files and directories that commands can read in addition to the programs, separated by :; " +
		"nothing secret",
	"command.network": "let commands ask for the network: everything that this machine reaches, " +
		"including its own loopback",
	"command.slots":      "maximum number of commands in progress, which namespaces share; further ones wait for their turn",
	"command.memory_mb":  "memory of one command, in MB",
	"command.processes":  "maximum number of processes and threads of one command",
	"command.scratch_mb": "MB that one command can write to /tmp, and as much to /dev/shm; both count as memory",
	"command.user":       "number of the user that commands run as if the node is root; otherwise the node's user",
	"command.bubblewrap": "path of bubblewrap",
	"command.container_socket": "socket of Docker or Podman for jobs that name an image, " +
		"such as /run/podman/podman.sock; empty means none",
	"command.images": "images that jobs may run, separated by commas. One that ends in * matches any image " +
		"with that beginning. NAMESPACE=IMAGE is for jobs of that namespace only",

	"tracing.endpoint": "where spans go, by OTLP over HTTP, for example http://127.0.0.1:4318/v1/traces; " +
		"empty means off",
	"tracing.headers":      "headers of these requests, such as a token",
	"tracing.headers_file": "file with the headers, such as a mounted secret, instead of tracing.headers",
	"tracing.ca_file":      "file with the certificates that the collector's must be signed by, instead of the system's",
	"tracing.compression":  "compression of these requests",
	"tracing.timeout":      "timeout of one of these requests",
	"tracing.sampler": "which runs are traced, besides failed, rescued and late ones; with parentbased, " +
		"a triggered run follows its caller",
	"tracing.ratio":    "share of the runs that the samplers with traceidratio trace",
	"tracing.late":     "a run that starts later than this after its run time is traced",
	"tracing.queue":    "maximum number of spans that wait for the collector; further ones are dropped and counted",
	"tracing.service":  "name of this service in traces",
	"tracing.resource": "further attributes of this service in traces",
	"tracing.url": "where people look at a trace: the web UI and belfry run get link to it, with the id of the trace in " +
		"place of {trace_id}",

	"archive.url": "where days of history are archived as Parquet files before they are dropped: a bucket of an S3 API or " +
		"a directory that all nodes share; empty means off",
	"archive.insecure": "use a bucket on another machine without TLS, for use where something else protects the " +
		"connection",
	"archive.region":          "region of the bucket",
	"archive.access_key":      "access key of the bucket",
	"archive.access_key_file": "file with the access key, such as a mounted secret, instead of archive.access_key",
	"archive.secret_key":      "secret key of the bucket",
	"archive.secret_key_file": "file with the secret key, such as a mounted secret, instead of archive.secret_key",
	"archive.required": "drop a day of history only when the archive has it; the database remembers it, " +
		"so that it holds for nodes without these settings too",
	"archive.rate":    "maximum number of rows that are read per second",
	"archive.disk_mb": "how many MB of that disk a node uses; a day that needs more is not archived",
	"archive.directory": "directory for the files that a node sorts, about 40 bytes per row of a day; " +
		"empty means a directory for temporary files",

	"log.level":  "lowest level that is logged",
	"log.format": "format of log lines",
}

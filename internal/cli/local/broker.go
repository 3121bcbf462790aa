package local

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/app/brokers"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

func newBroker() *cobra.Command {
	cmd := &cobra.Command{
		Use: "broker", Short: "Set, list and delete the brokers that jobs name, as the owner of the database",
		Long: `Jobs of the kinds kafka, nats and amqp name a broker, which the operator of the cluster
sets here: where it is, how to log in, and which namespaces may use it. Credentials are
encrypted with the keyset of secrets, and no command shows them. Nodes use a change
within seconds. Use the database URL of the owner, and the secrets.keyset_file of the nodes.`,
		Example: `  belfry broker set orders --kind kafka --server kafka.example.com:9092 --all-namespaces
  belfry broker list`,
	}
	usage.Group(cmd, newBrokerSet(), newBrokerList(), newBrokerDelete())
	for _, c := range cmd.Commands() {
		databaseFlags(c.Flags(), "secrets.keyset_file")
	}
	return cmd
}

// brokerFlags are the flags of broker set.
type brokerFlags struct {
	broker access.Broker
	tls    access.BrokerTLS
	useTLS bool
	all    bool
	files  map[string]*string // their names, by flag
}

func (f *brokerFlags) add(cmd *cobra.Command) {
	flags, c := cmd.Flags(), &f.broker.Config
	flags.StringVar(&f.broker.Kind, "kind", "", "kafka, nats or amqp")
	flags.StringArrayVar(&c.Servers, "server", nil, "host:port; may be repeated")
	flags.StringArrayVar(&f.broker.Namespaces, "namespace", nil, "a namespace whose jobs may use it; may be repeated")
	flags.BoolVar(&f.all, "all-namespaces", false, "jobs of all namespaces may use it")
	flags.BoolVar(&f.useTLS, "tls", false, "encrypt connections")
	flags.StringVar(&f.tls.ServerName, "tls-server-name", "", "the name in the server's certificate, if it is not the host")
	flags.StringVar(&c.User, "username", "", "the user to log in as")
	flags.StringVar(&c.SASL, "sasl", "", "how to log in to Kafka: SCRAM-SHA-512 (default), SCRAM-SHA-256 or PLAIN")
	flags.StringVar(&c.VHost, "vhost", "", "the virtual host of RabbitMQ (default /)")
	f.files = map[string]*string{}
	for _, file := range []struct{ flag, help string }{
		{"password-file", "read the password from this file"},
		{"token-file", "read a token of NATS from this file"},
		{"credentials-file", "a .creds file of NATS"},
		{"tls-ca", "a PEM file with the authority of the server's certificate (default: those of the system)"},
		{"tls-certificate", "a PEM file with a certificate of the client"},
		{"tls-key-file", "a PEM file with the key of that certificate"},
	} {
		f.files[file.flag] = flags.String(file.flag, "", file.help)
	}
}

// read returns the broker that the flags describe.
func (f *brokerFlags) read(name string) (*access.Broker, error) {
	b := &f.broker
	b.Name = name
	if f.all == (len(b.Namespaces) > 0) {
		return nil, usage.Errorf("say which namespaces may use the broker: --namespace NAME, or --all-namespaces")
	}
	text := map[string]string{} // of the files, by flag
	for flag, file := range f.files {
		if *file == "" {
			continue
		}
		data, err := os.ReadFile(*file)
		if err != nil {
			return nil, fmt.Errorf("read --%s: %w", flag, err)
		}
		text[flag] = string(data)
	}
	line := func(flag string) string { return strings.TrimSuffix(strings.TrimSuffix(text[flag], "\n"), "\r") }
	f.tls.CA, f.tls.Certificate = text["tls-ca"], text["tls-certificate"]
	b.Credentials = access.BrokerCredentials{
		Password: line("password-file"), Token: line("token-file"), Creds: text["credentials-file"], Key: text["tls-key-file"],
	}
	if f.useTLS || f.tls != (access.BrokerTLS{}) {
		b.Config.TLS = &f.tls
	}
	return b, nil
}

func newBrokerSet() *cobra.Command {
	var flags brokerFlags
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Set a broker, or replace one", Args: usage.Args(1, 1),
		Long: `Set a broker that jobs name. If there is one of that name, all of it is replaced: what you
leave out is removed, including credentials.`,
		Example: `  belfry broker set orders --kind kafka --server kafka-1.example.com:9093 --server kafka-2.example.com:9093 \
    --tls --username belfry --password-file password.txt --namespace billing
  belfry broker set events --kind nats --server nats.example.com:4222 --credentials-file belfry.creds --all-namespaces`,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := flags.read(args[0])
			if err != nil {
				return err
			}
			v, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			inClear, err := brokers.Set(cmd.Context(), databaseOf(v), b)
			if err != nil {
				return err
			}
			if inClear {
				_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "warning: nodes log in there without TLS, so others on the network can read "+
					"the login; use --tls")
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", terminal.Green.Render("set"), b.Name)
			return err
		},
	}
	flags.add(cmd)
	return cmd
}

// brokerView is a broker in the output for programs.
type brokerView struct {
	Name       string    `json:"name"`
	Kind       string    `json:"kind"`
	Servers    []string  `json:"servers"`
	TLS        bool      `json:"tls"`
	User       string    `json:"user,omitempty"`
	Namespaces []string  `json:"namespaces"` // null: all
	UpdatedAt  time.Time `json:"updated_at"`
}

func newBrokerList() *cobra.Command {
	var output *string
	cmd := &cobra.Command{
		Use: "list", Short: "List the brokers, without their credentials", Args: noArgs,
		Example: `  belfry broker list
  belfry broker list -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := usage.CheckOutput(*output); err != nil {
				return err
			}
			v, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			all, err := brokers.List(cmd.Context(), databaseOf(v))
			if err != nil {
				return err
			}
			items, rows := []brokerView{}, [][]string{}
			for _, b := range all {
				c, who := b.Config, "all"
				if b.Namespaces != nil {
					who = strings.Join(b.Namespaces, ",")
				}
				encrypted := "no"
				if c.TLS != nil {
					encrypted = "yes"
				}
				items = append(items, brokerView{b.Name, b.Kind, c.Servers, c.TLS != nil, c.User, b.Namespaces, b.UpdatedAt})
				rows = append(rows, []string{
					b.Name, b.Kind, terminal.Clean(strings.Join(c.Servers, ",")), encrypted, terminal.Clean(c.User), who,
					terminal.Time(&b.UpdatedAt, nil),
				})
			}
			if *output == usage.Table {
				return terminal.WriteTable(cmd.OutOrStdout(),
					[]string{"NAME", "KIND", "SERVERS", "TLS", "USER", "NAMESPACES", "UPDATED UTC"}, rows)
			}
			return terminal.WriteValue(cmd.OutOrStdout(), *output, items)
		},
	}
	output = usage.OutputFlag(cmd.Flags())
	return cmd
}

func newBrokerDelete() *cobra.Command {
	return &cobra.Command{
		Use: "delete BROKER", Short: "Delete a broker", Args: usage.Args(1, 1),
		Long:    `Delete a broker. Runs of jobs that name it fail, and may be retried, until it is there again.`,
		Example: `  belfry broker delete orders`,
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			if err := brokers.Delete(cmd.Context(), databaseOf(v), args[0]); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", terminal.Red.Render("deleted"), terminal.Clean(args[0]))
			return err
		},
	}
}

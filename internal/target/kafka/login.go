package kafka

import (
	"bytes"
	"context"
	"strconv"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/belfry-dev/belfry/internal/target/broker"
)

// maxIterations is how many rounds of SCRAM a broker may demand. Kafka's default is 4,096, and each takes about
// a microsecond. The client would compute any number of them.
const maxIterations = 100_000

const errIterations = broker.OwnError("it demands more rounds of SCRAM than 100,000; lower the iterations of the user")

func mechanism(name string, a broker.Access) sasl.Mechanism {
	switch name {
	case "PLAIN":
		return plain.Auth{User: a.User, Pass: a.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return limitedSCRAM{scram.Auth{User: a.User, Pass: a.Password}.AsSha256Mechanism()}
	default:
		return limitedSCRAM{scram.Auth{User: a.User, Pass: a.Password}.AsSha512Mechanism()}
	}
}

// limitedSCRAM is a login that computes at most maxIterations.
type limitedSCRAM struct{ sasl.Mechanism }

// Authenticate implements sasl.Mechanism.
func (l limitedSCRAM) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	session, first, err := l.Mechanism.Authenticate(ctx, host)
	if err != nil {
		return nil, nil, err
	}
	return limitedSession{session}, first, nil
}

type limitedSession struct{ sasl.Session }

// Challenge implements sasl.Session. A broker demands iterations in its first message.
func (l limitedSession) Challenge(said []byte) (done bool, response []byte, err error) {
	for field := range bytes.SplitSeq(said, []byte(",")) {
		text, ok := bytes.CutPrefix(field, []byte("i="))
		if n, err := strconv.Atoi(string(text)); ok && (err != nil || n > maxIterations) {
			return false, nil, errIterations
		}
	}
	return l.Session.Challenge(said)
}

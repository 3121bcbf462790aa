package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

func checkNATS(ctx context.Context, url string) error {
	conn, err := nats.Connect(url, nats.Timeout(checkTimeout))
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	want := token()
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: want, Subjects: []string{want}, Storage: jetstream.FileStorage,
	})
	if err != nil {
		return err
	}
	defer js.DeleteStream(ctx, want)
	if _, err := js.Publish(ctx, want, []byte(want)); err != nil {
		return err
	}
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		return err
	}
	msg, err := consumer.Next(jetstream.FetchMaxWait(checkTimeout))
	if err != nil {
		return err
	}
	if err := same(want, msg.Data()); err != nil {
		return err
	}
	return msg.DoubleAck(ctx)
}

func checkRabbitMQ(ctx context.Context, url string) error {
	conn, err := amqp.DialConfig(url, amqp.Config{Dial: amqp.DefaultDial(checkTimeout)})
	if err != nil {
		return err
	}
	defer conn.Close()
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := channel.Confirm(false); err != nil {
		return err
	}
	want := token()
	const exclusive = true // the queue goes with the connection
	if _, err := channel.QueueDeclare(want, false, true, exclusive, false, nil); err != nil {
		return err
	}
	deliveries, err := channel.ConsumeWithContext(ctx, want, "", false, exclusive, false, false, nil)
	if err != nil {
		return err
	}
	const mandatory = true
	confirm, err := channel.PublishWithDeferredConfirmWithContext(ctx, "", want, mandatory, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(want)})
	if err != nil {
		return err
	}
	acked, err := confirm.WaitContext(ctx)
	if err != nil {
		return err
	}
	if !acked {
		return errors.New("the broker refused the message (nack)")
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case delivery, open := <-deliveries:
		if !open {
			return errors.New("the broker closed the channel")
		}
		if err := same(want, delivery.Body); err != nil {
			return err
		}
		return delivery.Ack(false)
	}
}

// checkKafka uses the same topic for all calls and reads only the offset it was given.
func checkKafka(ctx context.Context, brokers string) error {
	const topic = "belfry-probe"
	seeds := kgo.SeedBrokers(strings.Split(brokers, ",")...)
	producer, err := kgo.NewClient(seeds, kgo.RequiredAcks(kgo.AllISRAcks()), kgo.AllowAutoTopicCreation())
	if err != nil {
		return err
	}
	defer producer.Close()
	want := token()
	sent, err := producer.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(want)}).First()
	if err != nil {
		return err
	}
	at := map[string]map[int32]kgo.Offset{topic: {sent.Partition: kgo.NewOffset().At(sent.Offset)}}
	consumer, err := kgo.NewClient(seeds, kgo.ConsumePartitions(at))
	if err != nil {
		return err
	}
	defer consumer.Close()
	fetches := consumer.PollRecords(ctx, 1)
	if err := fetches.Err(); err != nil {
		return err
	}
	return same(want, fetches.Records()[0].Value)
}

func same(want string, got []byte) error {
	if string(got) != want {
		return fmt.Errorf("sent %q, received %q", want, got)
	}
	return nil
}

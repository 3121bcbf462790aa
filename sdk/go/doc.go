// Package belfry is the client of Belfry's API.
//
//	client, err := belfry.New("http://localhost:8420", key)
//	job, err := client.Jobs.Put(ctx, belfry.JobInput{Name: "nightly-report", …})
//	run, err := client.Jobs.Trigger(ctx, job.Name, belfry.TriggerRequest{})
//	run, err = client.Runs.Wait(ctx, run.ID)
//
// A [Client] has a service for each kind of thing: Jobs, Runs, Queues, DeadLetters, Operations, Secrets and Keys. It
// adds the API key, repeats requests where that is safe, and iterates over pages. [Client.Call] and [Client.List] reach
// the operations that no service has. The types in models.gen.go are generated from api/openapi.yaml.
//
// A response that is not a success is an error of type *[Problem]. Switch on its Code, which never changes:
//
//	if belfry.CodeOf(err) == "not_found" { … }
package belfry

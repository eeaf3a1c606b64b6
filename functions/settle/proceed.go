package main

import (
	"context"
	"encoding/json"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/terrapulse/terrapulse/internal/invoke"
)

// proceed returns a function that invokes a tick at once, because a run has ended. The invocation
// is asynchronous.
func proceed(client *lambda.Client, function string) func(context.Context) error {
	return func(ctx context.Context) error {
		payload, err := json.Marshal(invoke.Request{Mode: invoke.Reconcile, Ended: true})
		if err != nil {
			return err
		}
		_, err = client.Invoke(ctx, &lambda.InvokeInput{FunctionName: &function, InvocationType: types.InvocationTypeEvent, Payload: payload})
		return err
	}
}

// Command reconcile is the function that EventBridge Scheduler invokes: it polls Consul, decides,
// and launches containers for tasks with changes. People can invoke it, too: see internal/aws/invoke.
package main

import (
	"context"
	"encoding/json"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/aws/reconcilefunction"
	"github.com/terrapulse/terrapulse/internal/aws/settings"
	"github.com/terrapulse/terrapulse/internal/base/awsenv"
	"github.com/terrapulse/terrapulse/internal/base/logging"
)

func main() {
	settings, err := settings.Read[settings.Reconcile](os.Environ())
	log := logging.JSON(os.Stdout, &logging.Level)
	var cfg aws.Config
	if err == nil {
		cfg, err = awsenv.Config(context.Background())
	}
	if err != nil {
		// Every invocation returns the error: if the process exited here, Lambda would restart it
		// again and again, and only its log would say why.
		log.Error("the function is not configured correctly", "error", err)
		lambda.Start(func(context.Context, json.RawMessage) (invoke.Answer, error) { return invoke.Answer{}, err })
		return
	}
	lambda.Start(reconcilefunction.New(cfg, settings, os.Stdout, log).Handle)
}

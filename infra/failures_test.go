package infra_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// What nobody waits for must not fail silently: it ends in the dead-letter queue, which has an
// alarm.
func TestTemplate_AsynchronousFailuresHaveADestination(t *testing.T) {
	stack := bounds(t)
	text := func(v any) string {
		t.Helper()
		said, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(said)
	}
	counted := map[string]int{}
	for id, r := range stack.Template.Resources {
		var failures []any
		switch r.Type {
		case "AWS::Lambda::EventInvokeConfig":
			destination, _ := r.Properties["DestinationConfig"].(map[string]any)
			failures = append(failures, destination["OnFailure"])
		case "AWS::Scheduler::Schedule":
			target, _ := r.Properties["Target"].(map[string]any)
			failures = append(failures, target["DeadLetterConfig"])
		case "AWS::Events::Rule":
			targets, _ := r.Properties["Targets"].([]any)
			for _, target := range targets {
				target, _ := target.(map[string]any)
				failures = append(failures, target["DeadLetterConfig"])
			}
		default:
			continue
		}
		counted[r.Type]++
		for _, to := range failures {
			if !strings.Contains(text(to), `["DeadLetters","Arn"]`) {
				t.Errorf("what fails at %s goes to %s", id, text(to))
			}
		}
	}
	// Settle and the API invoke functions/reconcile without waiting, S3 and ECS send events.
	if counted["AWS::Lambda::EventInvokeConfig"] != 2 || counted["AWS::Scheduler::Schedule"] != 1 || counted["AWS::Events::Rule"] != 3 {
		t.Errorf("found %v", counted)
	}
	for _, role := range []string{"ReconcileRole", "SettleRole", "ScheduleRole"} {
		if !stack.Roles[role].Allows(t, ask("sqs:SendMessage", queue(stack.Outputs["DeadLetters"]))) {
			t.Errorf("%s may not send to the dead-letter queue: %v", role, stack.Roles[role])
		}
	}
	if alarm := stack.Template.Resources["Undelivered"]; !strings.Contains(text(alarm.Properties), `["DeadLetters","QueueName"]`) {
		t.Errorf("no alarm watches the dead-letter queue: %v", alarm)
	}
}

// queue returns the ARN of a queue by its URL.
func queue(url string) string {
	return "arn:aws:sqs:eu-west-1:123456789012:" + url[strings.LastIndex(url, "/")+1:]
}

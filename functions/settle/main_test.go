package main

import (
	"io"
	"strings"
	"testing"
)

func TestNewHandler_WithTheEnvironmentOfTheTemplate(t *testing.T) {
	for name, value := range map[string]string{"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"} {
		t.Setenv(name, value)
	}
	h, err := newHandler(t.Context(), []string{"TERRAPULSE_STACK=prod", "TERRAPULSE_TABLE=prod-table", "TERRAPULSE_CLUSTER=" + cluster,
		"TERRAPULSE_TASK_DEFINITION=arn:aws:ecs:eu-west-1:111122223333:task-definition/prod-runner:7", "TERRAPULSE_RECONCILE_FUNCTION=prod-reconcile"}, io.Discard)
	if err != nil || h.cluster != cluster || h.family != "prod-runner" || h.proceed == nil {
		t.Errorf("%+v, %v", h, err)
	}
	_, err = newHandler(t.Context(), []string{"TERRAPULSE_STACK=prod"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "TERRAPULSE_RECONCILE_FUNCTION") || !strings.Contains(err.Error(), "TERRAPULSE_TABLE") {
		t.Errorf("said %v", err)
	}
}

package ecstask

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// metadataLimit limits an answer from a link-local address on the same host.
const metadataLimit = 5 * time.Second

// Current returns the ECS task that this process runs in, with its ARN and its task definition as
// family:revision. The endpoint is the value of ECS_CONTAINER_METADATA_URI_V4.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-metadata-endpoint-v4-fargate.html
func Current(ctx context.Context, endpoint string) (Task, error) {
	ctx, cancel := context.WithTimeout(ctx, metadataLimit)
	defer cancel()
	var task struct{ TaskARN, Family, Revision string }
	if err := get(ctx, endpoint+"/task", &task); err != nil {
		return Task{}, fmt.Errorf("read the task of this container from ECS: %w", err)
	}
	if task.TaskARN == "" {
		return Task{}, fmt.Errorf("read the task of this container from ECS: %s/task contains no TaskARN", endpoint)
	}
	current := Task{ARN: task.TaskARN}
	if task.Family != "" && task.Revision != "" {
		current.TaskDefinition = task.Family + ":" + task.Revision
	}
	return current, nil
}

func get(ctx context.Context, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

//go:build linux

package e2e

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
	"github.com/terrapulse/terrapulse/internal/aws/eventbridge"
)

// callerIdentity answers STS's GetCallerIdentity.
func callerIdentity(w http.ResponseWriter, r *http.Request) {
	if action := r.FormValue("Action"); action != "GetCallerIdentity" {
		http.Error(w, "this stand-in for STS does not know "+action, http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/xml")
	io.WriteString(w, `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>
<Arn>arn:aws:sts::123456789012:assumed-role/runner/task</Arn><UserId>AROAEXAMPLE:task</UserId><Account>123456789012</Account>
</GetCallerIdentityResult><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></GetCallerIdentityResponse>`)
}

// describeStack answers CloudFormation's DescribeStacks.
func (c *cloud) describeStack(w http.ResponseWriter, r *http.Request, parameters rehearsal.Parameters, outputs map[string]string, own *strings.Replacer) {
	w.Header().Set("Content-Type", "text/xml")
	if name := r.FormValue("StackName"); name != c.name {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, "<ErrorResponse><Error><Type>Sender</Type><Code>ValidationError</Code><Message>Stack with id %s does not exist</Message></Error></ErrorResponse>", name)
		return
	}
	var b strings.Builder
	b.WriteString("<DescribeStacksResponse><DescribeStacksResult><Stacks><member><StackName>" + c.name + "</StackName><CreationTime>" + time.Now().UTC().Format(time.RFC3339) + "</CreationTime><StackStatus>CREATE_COMPLETE</StackStatus><Parameters>")
	for name, value := range parameters {
		fmt.Fprintf(&b, "<member><ParameterKey>%s</ParameterKey><ParameterValue>%s</ParameterValue></member>", name, value)
	}
	b.WriteString("</Parameters><Outputs>")
	for name, value := range outputs {
		fmt.Fprintf(&b, "<member><OutputKey>%s</OutputKey><OutputValue>", name)
		xml.EscapeText(&b, []byte(own.Replace(value)))
		b.WriteString("</OutputValue></member>")
	}
	b.WriteString("</Outputs></member></Stacks></DescribeStacksResult></DescribeStacksResponse>")
	io.WriteString(w, b.String())
}

// onBus is the kinds of the events of a task that reached the bus. An event that
// came twice, which may happen, counts once.
func (c *cloud) onBus(task string) string {
	c.t.Helper()
	var kinds []string
	seen := map[string]bool{}
	for _, e := range c.bus.Events() {
		if e.DetailType == eventbridge.MessageType {
			continue // about events
		}
		if e.Source != eventbridge.Source || e.DetailType != string(e.Detail.Kind) || e.Detail.Stack != c.name || e.Detail.Message == "" {
			c.t.Errorf("the event %+v is not as documented", e)
		}
		if e.Detail.Task == task && !seen[e.Detail.ID] {
			kinds = append(kinds, e.DetailType)
		}
		seen[e.Detail.ID] = true
	}
	return strings.Join(kinds, " ")
}

// secretsManager answers GetSecretValue.
func (c *cloud) secretsManager(w http.ResponseWriter, r *http.Request) {
	var in struct{ SecretId string }
	json.NewDecoder(r.Body).Decode(&in)
	value, err := c.secret(in.SecretId)
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		json.NewEncoder(w).Encode(map[string]string{"__type": "ResourceNotFoundException", "message": err.Error()})
		return
	}
	json.NewEncoder(w).Encode(map[string]string{"ARN": in.SecretId, "Name": "consul-token", "SecretString": value})
}

func (c *cloud) secret(arn string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	value, ok := c.secrets[arn]
	if !ok {
		return "", fmt.Errorf("no secret %s", arn)
	}
	return value, nil
}

func (c *cloud) setSecret(arn, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.secrets[arn] = value
}

// Package awsrole lets the Terraform of one task work with an AWS role of its own.
//
// Terraform and its providers get no credentials, but the address of a server on this machine that
// gives them some, as ECS does for a container. So the credentials of a long run are renewed.
package awsrole

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
)

// fresh is how long credentials are valid at least when they are handed out.
const fresh = 10 * time.Minute

// lifetime is how long credentials are valid: as long as AWS allows if one role assumes another. Every role
// allows it.
const lifetime = time.Hour

// maxSession is the longest name of a session.
const maxSession = 64

// hidden are the variables through which the SDKs of AWS find other credentials.
var hidden = []string{
	"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN",
	"AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME", "AWS_WEB_IDENTITY_TOKEN_FILE",
	"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
}

// Assume assumes a role for a task with the credentials of cfg. It returns environment variables
// with which Terraform works with the role, until end is called. A variable with an empty value must
// not be set.
func Assume(ctx context.Context, cfg aws.Config, role, task string) (env map[string]string, end func(), err error) {
	return assume(ctx, cfg, role, task, "in AWS, the stack's parameter TaskRoleArns must include the role; and the role's trust policy must name the stack's output RunnerRole, "+
		"or on one machine the identity that Terrapulse has")
}

// AssumeForPlan is Assume in a container that applies nothing. By convention, the name of its role is that of
// the task's role with -plan at its end.
func AssumeForPlan(ctx context.Context, cfg aws.Config, role, task string) (env map[string]string, end func(), err error) {
	return assume(ctx, cfg, role+"-plan", task, fmt.Sprintf("in AWS, plans and checks for drift do not use %s, but the role of that name with -plan at its end: "+
		"create it with rights to read; its trust policy must name the stack's output PlanRole, and the stack's parameter TaskRoleArns must include %s", role, role))
}

// assume is Assume. help is what a person can do if AWS denies it.
func assume(ctx context.Context, cfg aws.Config, role, task, help string) (env map[string]string, end func(), err error) {
	provider := aws.NewCredentialsCache(stscreds.NewAssumeRoleProvider(sts.NewFromConfig(cfg), role, func(o *stscreds.AssumeRoleOptions) {
		o.RoleSessionName, o.Duration = session(task), lifetime
	}), func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = fresh })
	_, err = provider.Retrieve(ctx) // it may return credentials although ctx has ended
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return nil, nil, explained(err, role, task, help)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, fmt.Errorf("serve the credentials of %s to Terraform: %w", role, err)
	}
	token := rand.Text()
	server := &http.Server{Handler: handler(provider, token), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // it ends with Close
	env = map[string]string{
		"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://" + listener.Addr().String() + "/credentials",
		"AWS_CONTAINER_AUTHORIZATION_TOKEN":  token,
		// The files of profiles would take precedence.
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	}
	for _, name := range hidden {
		env[name] = ""
	}
	if os.Getenv("AWS_REGION") == "" && os.Getenv("AWS_DEFAULT_REGION") == "" {
		env["AWS_REGION"] = cfg.Region // of a profile
	}
	return env, func() { _ = server.Close() }, nil
}

// handler gives credentials to a client with the token, as ECS does.
func handler(provider aws.CredentialsProvider, token string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(token)) != 1 {
			http.Error(w, "these are the credentials of another program", http.StatusForbidden)
			return
		}
		found, err := provider.Retrieve(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{ // an error means that the client has gone
			"AccessKeyId": found.AccessKeyID, "SecretAccessKey": found.SecretAccessKey, "Token": found.SessionToken,
			"Expiration": found.Expires.UTC().Format(time.RFC3339),
		})
	}
}

var notInSession = regexp.MustCompile(`[^A-Za-z0-9_+=,.@-]`)

// session returns the name of a task's session, which CloudTrail shows.
func session(task string) string {
	name := notInSession.ReplaceAllString("terrapulse-"+task, "-")
	if len(name) <= maxSession {
		return name
	}
	sum := sha256.Sum256([]byte(task))
	return name[:maxSession-9] + "-" + hex.EncodeToString(sum[:4])
}

// explained adds to an error what a person can do.
func explained(err error, role, task, help string) error {
	err = fmt.Errorf("assume the role %s for task %s: %w", role, task, err)
	if api := smithy.APIError(nil); errors.As(err, &api) && api.ErrorCode() == "AccessDenied" {
		return fmt.Errorf("%w; %s", err, help)
	}
	return err
}

package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
)

type slackKeys struct {
	common
	URL     block.String `key:"url" secret:"value" unset:"'token' and 'channel' are used" doc:"address of an incoming webhook, which is a secret: use a template"`
	Token   block.String `key:"token" secret:"value" unset:"'url' is used" doc:"token of a bot, which keeps a thread for each incident: use a template"`
	Channel block.String `key:"channel" unset:"none" example:"C0123456789" doc:"with 'token': the id of the channel"`
	APIURL  block.String `key:"api_url" default:"https://slack.com/api/" doc:"with 'token': address of Slack's API, such as that of GovSlack"`
}

// slack posts a message through an incoming webhook of Slack.
type slack struct{ URL string }

func (*slackKeys) about() about {
	return about{ForPeople: true, Templates: []string{"url", "token"},
		Secrets: []secret{{"url", `https://hooks\.slack\.com/[^\s"'\\]+`}, {"token", `\bxox[a-z]-[A-Za-z0-9-]{10,}`}}}
}

var channelForm = regexp.MustCompile(`^[CGD][A-Z0-9]{6,}$`)

func (k *slackKeys) target(r *block.Report) Target {
	if !k.Token.Set {
		if k.Channel.Set {
			r.Missing(k.Origin.Key("token"), "the notify block has a channel and no token", "the token of the bot, such as {{ env \"SLACK_TOKEN\" }}")
		}
		checkURL(r, &k.URL, k.Origin)
		return &slack{k.URL.V}
	}
	switch {
	case k.URL.Set:
		r.Fail(k.URL.Origin, "the notify block has both a url and a token", "a webhook needs url alone, a bot needs token and channel")
	case !k.Channel.Set:
		r.Missing(k.Origin.Key("channel"), "the notify block has a token and no channel", "the id of the channel, which is at the end of its details in Slack")
	case !channelForm.MatchString(k.Channel.V):
		r.Fail(k.Channel.Origin, "not the id of a channel: "+block.Quoted(k.Channel.V), `such as "C0123456789": it is at the end of the channel's details in Slack`)
	}
	if !isEndpoint(k.APIURL.V) {
		r.Fail(k.APIURL.Origin, "the api_url is not one with a scheme and a host", `such as "https://slack.com/api/"`)
	}
	return &bot{API: strings.TrimSuffix(k.APIURL.V, "/") + "/", Token: k.Token.V, Channel: k.Channel.V}
}

// Texts implements Target.
func (s *slack) Texts() map[string]string { return map[string]string{"url": s.URL} }

func (s *slack) send(ctx context.Context, e outbox.Event, texts map[string]string) error {
	body, err := json.Marshal(map[string]string{"text": slackText(e)})
	if err != nil {
		return fmt.Errorf("encode the message: %w", err)
	}
	return post(ctx, texts["url"], http.Header{}, body)
}

// escape keeps Slack from reading a text as markup or a mention.
var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "`", "'")

// slackText is Lines with Slack's markup.
func slackText(e outbox.Event) string {
	lines := Lines(e)
	for i, line := range lines {
		line = escape.Replace(line)
		if i == 0 {
			line = "*" + line + "*"
		} else if command, ok := strings.CutPrefix(line, toApprove); ok {
			line = toApprove + "`" + command + "`"
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}

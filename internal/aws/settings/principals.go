package settings

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/identity"
)

// Principals are the IAM principals that may act. Each is an ARN in which * matches any
// text, or only *.
type Principals []*regexp.Regexp

// UnmarshalText parses ARNs that are separated by commas.
func (p *Principals) UnmarshalText(text []byte) error {
	*p = nil
	for arn := range strings.SplitSeq(string(text), ",") {
		arn = strings.TrimSpace(arn)
		if arn == "" {
			continue
		}
		if arn != "*" && !strings.HasPrefix(arn, "arn:") {
			return fmt.Errorf("%q is not the ARN of an IAM role or user, such as arn:aws:iam::123456789012:role/NetworkOperator, nor *", arn)
		}
		if before, role, ok := strings.Cut(arn, ":role/"); ok {
			// AWS names the caller's role without its path.
			name := path.Base(role)
			if strings.Contains(role, "/") && strings.Trim(name, "*") == "" {
				return fmt.Errorf("%q allows every role, as AWS does not tell the path of a caller's role: name the roles", arn)
			}
			arn = before + ":role/" + name
		}
		*p = append(*p, regexp.MustCompile("^"+strings.ReplaceAll(regexp.QuoteMeta(arn), `\*`, ".*")+"$"))
	}
	return nil
}

// Include reports whether a caller is one of the principals: by its own ARN or, if it is a
// session of a role, by the role.
func (p Principals) Include(caller string) bool {
	names := identity.OfARN(caller).Names()
	for _, pattern := range p {
		for _, name := range names {
			if pattern.MatchString(name) {
				return true
			}
		}
	}
	return false
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/aws/aws-lambda-go/cfn"
)

// groupUse says who else uses the stack's security group when the stack is deleted. EC2 refuses to
// delete such a group, which CloudFormation tries last, after up to 45 minutes, and does not say who.
type groupUse struct {
	EC2 *query
	Log *slog.Logger
}

// handle fails a deletion while others use the group. What cannot be read does not: the group may be
// unused.
func (g *groupUse) handle(ctx context.Context, e cfn.Event) (id string, data map[string]any, err error) {
	group := property(e.ResourceProperties, "Group")
	if e.RequestType != cfn.RequestDelete || e.PhysicalResourceID != group { // after a failed creation, it is another id
		return group, nil, nil
	}
	users, err := g.users(ctx, group)
	if err != nil {
		g.Log.Warn("cannot find out who uses the security group", "group", group, "error", err)
	}
	if len(users) > 0 {
		return group, nil, fmt.Errorf("the stack's security group %s is in use, so that it cannot be deleted: %s. Remove that, and delete the stack again", group, strings.Join(users, "; "))
	}
	return group, nil, nil
}

// users returns who uses the group: the rules of other groups that name it, and the network
// interfaces that have it. Lambda removes its own interfaces after its functions, and CloudFormation
// waits for that.
func (g *groupUse) users(ctx context.Context, group string) (users []string, err error) {
	for filter, kind := range map[string]string{"ip-permission.group-id": "an inbound", "egress.ip-permission.group-id": "an outbound"} {
		var found struct {
			Items []struct {
				ID   string `xml:"groupId"`
				Name string `xml:"groupName"`
			} `xml:"securityGroupInfo>item"`
		}
		err = errors.Join(err, g.EC2.call(ctx, "DescribeSecurityGroups", filtered(filter, group), &found))
		for _, other := range found.Items {
			if other.ID != group {
				users = append(users, fmt.Sprintf("the security group %s (%s) has %s rule with it", other.ID, other.Name, kind))
			}
		}
	}
	var found struct {
		Items []struct {
			ID          string `xml:"networkInterfaceId"`
			Type        string `xml:"interfaceType"`
			Description string `xml:"description"`
		} `xml:"networkInterfaceSet>item"`
	}
	err = errors.Join(err, g.EC2.call(ctx, "DescribeNetworkInterfaces", filtered("group-id", group), &found))
	for _, i := range found.Items {
		if i.Type != "lambda" {
			users = append(users, fmt.Sprintf("the network interface %s (%s) has it", i.ID, i.Description))
		}
	}
	return users, err
}

// filtered returns the parameters that filter by one value.
func filtered(name, value string) url.Values {
	return url.Values{"Filter.1.Name": {name}, "Filter.1.Value.1": {value}}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// groupUse says who else uses the stack's security group when the stack is deleted. EC2 refuses to
// delete such a group, which CloudFormation tries last, after up to 45 minutes, and does not say who.
type groupUse struct {
	EC2 *ec2.Client
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
		g.Log.Warn("cannot find out who uses the security group: if it cannot be deleted, remove it from what uses it", "group", group, "error", err)
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
		pages := ec2.NewDescribeSecurityGroupsPaginator(g.EC2, &ec2.DescribeSecurityGroupsInput{Filters: filtered(filter, group)})
		err = errors.Join(err, eachPage(ctx, pages, func(page *ec2.DescribeSecurityGroupsOutput) {
			for _, other := range page.SecurityGroups {
				if *other.GroupId != group {
					users = append(users, fmt.Sprintf("the security group %s (%s) has %s rule with it", *other.GroupId, aws.ToString(other.GroupName), kind))
				}
			}
		}))
	}
	pages := ec2.NewDescribeNetworkInterfacesPaginator(g.EC2, &ec2.DescribeNetworkInterfacesInput{Filters: filtered("group-id", group)})
	err = errors.Join(err, eachPage(ctx, pages, func(page *ec2.DescribeNetworkInterfacesOutput) {
		for _, i := range page.NetworkInterfaces {
			if i.InterfaceType != types.NetworkInterfaceTypeLambda {
				users = append(users, fmt.Sprintf("the network interface %s (%s) has it", *i.NetworkInterfaceId, aws.ToString(i.Description)))
			}
		}
	}))
	return users, err
}

// filtered returns what filters by one value.
func filtered(name, value string) []types.Filter {
	return []types.Filter{{Name: &name, Values: []string{value}}}
}

// eachPage visits the pages of a list.
func eachPage[Out, Options any](ctx context.Context, pages interface {
	HasMorePages() bool
	NextPage(context.Context, ...func(*Options)) (*Out, error)
}, visit func(*Out)) error {
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		visit(page)
	}
	return nil
}

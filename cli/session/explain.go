// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cascadingv1 "github.com/scanyard/scanyard/apis/cascading/v1"
	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

const (
	// unconfigured is the address that clients of Kubernetes use without a configuration.
	unconfigured = "localhost:8080"
	noCluster    = "no cluster is configured: set KUBECONFIG, give --kubeconfig, or log in to your cluster first"
)

// Roles that the operator's chart adds to the roles that every cluster has.
const (
	roleView = "view"
	roleEdit = "edit"
)

// Explain returns an error of the API server, or of the connection to it, with a message for users and a
// remedy. The original error stays in the chain. Unknown errors are returned unchanged.
func (s *Session) Explain(err error) error {
	if err == nil {
		return nil
	}
	if known := (&explained{}); errors.As(err, &known) {
		return err
	}
	if text := s.words(err); text != "" {
		return &explained{text: text, cause: err}
	}
	return err
}

// Refused is what the API server says of a field of an object that was refused, "" where that is about something else.
func Refused(err error, field string) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return ""
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Field == field {
			return cause.Message
		}
	}
	return ""
}

type explained struct {
	text  string
	cause error
}

func (e *explained) Error() string { return e.text }
func (e *explained) Unwrap() error { return e.cause }

func (s *Session) words(err error) string {
	var status apierrors.APIStatus
	switch {
	case clientcmd.IsEmptyConfig(err):
		return noCluster
	case clientcmd.IsContextNotFound(err), clientcmd.IsConfigurationInvalid(err):
		return fmt.Sprintf("the kubeconfig cannot be used: %v; \"kubectl config get-contexts\" lists its contexts", err)
	case meta.IsNoMatchError(err):
		return fmt.Sprintf(
			"this cluster does not serve Scanyard's kinds (%v): a cluster admin installs them with the operator's chart, \"helm install scanyard\"",
			err,
		)
	case apierrors.IsUnauthorized(err):
		return "the cluster does not accept your credentials: log in again, or choose another --context"
	case apierrors.IsForbidden(err) && errors.As(err, &status):
		return s.forbidden(status.Status())
	}
	if netErr, ok := errors.AsType[*net.OpError](err); ok {
		where := "the API server"
		if target, ok := errors.AsType[*url.Error](err); ok {
			if u, parseErr := url.Parse(target.URL); parseErr == nil {
				where += " " + u.Host
				if u.Host == unconfigured {
					return noCluster
				}
			}
		}
		return fmt.Sprintf("%s cannot be reached (%v): is the cluster running, and is --context the one you mean?", where, netErr.Err)
	}
	return ""
}

// refusal parses the message of the API server's authorizer.
var refusal = regexp.MustCompile(`User "([^"]*)" cannot ([a-z]+) resource "([^"]*)" in API group "([^"]*)"(?: in the namespace "([^"]*)")?`)

// forbidden names the role that the user lacks.
func (s *Session) forbidden(status metav1.Status) string {
	m := refusal.FindStringSubmatch(status.Message)
	if m == nil {
		return status.Message // the message is of a policy or a quota
	}
	user, verb, resource, namespace := m[1], m[2], m[3], m[5]
	if namespace == "" {
		return fmt.Sprintf("you (%s) may not %s %s in the whole cluster: work in one namespace with -n NAMESPACE, or ask a cluster admin", user, verb, resource)
	}
	role := roleEdit
	if slices.Contains([]string{"get", "list", "watch"}, verb) {
		role = roleView
	}
	return fmt.Sprintf(
		"you (%s) may not %s %s in namespace %s: the ClusterRole %q is missing. Who administers the namespace gives it to you with: kubectl -n %s create "+
			"rolebinding %s-%s --clusterrole=%s --user=%s",
		user, verb, resource, namespace, role, namespace, lastPart(user), role, role, user,
	)
}

// lastPart makes a name for an object from a user's name, which may be an address or an account.
func lastPart(user string) string {
	name := user[strings.LastIndexAny(user, ":/")+1:]
	name, _, _ = strings.Cut(name, "@")
	return strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name)), "-")
}

// Missing explains the error of a Get. If the object does not exist, the message names objects with
// similar names.
func (s *Session) Missing(ctx context.Context, c client.Client, err error, kind, namespace, name string, list client.ObjectList) error {
	if !apierrors.IsNotFound(err) {
		return s.Explain(fmt.Errorf("get %s %s: %w", kind, name, err))
	}
	where, opts := " in the cluster", []client.ListOption{}
	if namespace != "" {
		where, opts = fmt.Sprintf(" in namespace %s", namespace), append(opts, client.InNamespace(namespace))
	}
	text := fmt.Sprintf("there is no %s %q%s", kind, name, where)
	if listErr := c.List(ctx, list, opts...); listErr == nil { // without the names the message is still right
		if near := Near(name, Names(list)); len(near) > 0 {
			text += "; did you mean " + strings.Join(near, " or ") + "?"
		} else if all := Names(list); len(all) > 0 {
			text += "; there are: " + Some(all, 8)
		}
	}
	return &explained{text: text, cause: err}
}

// Names returns the sorted names of the objects of a list.
func Names(list client.ObjectList) []string {
	var names []string
	_ = meta.EachListItem(list, func(o runtime.Object) error { // fails only for an object that is not a list
		if a, err := meta.Accessor(o); err == nil {
			names = append(names, a.GetName())
		}
		return nil
	})
	slices.Sort(names)
	return names
}

// Some joins the first few of many names.
func Some(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// Ours reports whether an API group is one of Scanyard's.
func Ours(group string) bool {
	return group == executionv1.SchemeGroupVersion.Group || group == cascadingv1.SchemeGroupVersion.Group
}

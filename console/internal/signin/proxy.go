// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/console/internal/session"
)

// Proxy reads who a proxy has signed in.
type Proxy struct {
	// Addresses are where the proxy comes from.
	Addresses []netip.Prefix
	// UserHeader and GroupsHeader name the headers; groups are separated by commas, or stand in headers of their own.
	UserHeader, GroupsHeader string
	// Groups are those that count.
	Groups []string
	// Users are those whom the API server is asked as by their own name. Others are asked as SharedUser.
	Users []string
}

// SharedUser is whom the API server is asked as for those who are not listed by name.
const SharedUser = "scanyard-console"

// ExtraName is the key of what the API server writes down of who they are: its audit log has it.
const ExtraName = "console.scanyard.io/user"

// Why a proxy's word does not count.
var (
	errStranger = errors.New("the console is reached through its proxy only")
	errNobody   = errors.New("the proxy has named nobody")
)

// Who says who a request is of.
func (p *Proxy) Who(r *http.Request) (*session.Identity, error) {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !slices.ContainsFunc(p.Addresses, func(n netip.Prefix) bool { return n.Contains(from.Addr().Unmap()) }) {
		return nil, errStranger
	}
	names := r.Header.Values(p.UserHeader)
	if len(names) != 1 || strings.TrimSpace(names[0]) == "" {
		return nil, errNobody
	}
	id := &session.Identity{Name: strings.TrimSpace(names[0])}
	if reserved(id.Name) {
		return nil, fmt.Errorf("the name %q is of the cluster's own", id.Name)
	}
	for _, header := range r.Header.Values(p.GroupsHeader) {
		for group := range strings.SplitSeq(header, ",") {
			group = strings.TrimSpace(group)
			if slices.Contains(p.Groups, group) && !reserved(group) && !slices.Contains(id.Groups, group) {
				id.Groups = append(id.Groups, group)
			}
		}
	}
	slices.Sort(id.Groups)
	id.User = SharedUser
	if slices.Contains(p.Users, id.Name) {
		id.User = id.Name
	} else {
		id.Extra = map[string][]string{ExtraName: {id.Name}}
	}
	return id, nil
}

// reserved says whether a name is one of the cluster's own users or groups.
func reserved(name string) bool { return strings.HasPrefix(name, "system:") }

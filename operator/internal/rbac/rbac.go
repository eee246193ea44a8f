// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/auth/rbac/validation"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// group is the API group of Scans.
const group = "execution.securecodebox.io"

// trusted is how long a namespace's accounts count as unchanged after they were last seen. A deleted
// account comes back at most this long afterwards; an account whose absence keeps pods from being
// created comes back with the next Scan, see Doubt.
const trusted = 10 * time.Minute

// secretsTrusted is the same for their pull secrets, whose change no pod reports.
const secretsTrusted = time.Minute

// uncached keeps the client from starting an informer, to wait for its own writes, for the kinds that
// are written here: it would hold every account and every Role of the cluster.
const uncached = client.DisableReadYourWritesConsistency

// account is a ServiceAccount with a Role and a RoleBinding of the same name.
type account struct {
	name        string
	description string
	rules       []rbacv1.PolicyRule
}

var (
	lurker = account{
		name:        executionv1.ServiceAccountLurker,
		description: "Lets the lurker of a scan pod see when the scanner has ended, so that it can upload the result and the end of the log.",
		// The contract has get of pods; watch saves the API server a request each second, and the log is all
		// that is left of a scanner when its pod is gone.
		rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}},
		},
	}
	parser = account{
		name:        executionv1.ServiceAccountParser,
		description: "Lets parsers read their Scan and ParseDefinition and write the counts of findings.",
		rules: append(scanRules(), rbacv1.PolicyRule{
			APIGroups: []string{group}, Resources: []string{"parsedefinitions"}, Verbs: []string{"get"},
		}),
	}
	hook = account{
		name:        executionv1.ServiceAccountHook,
		description: "Lets hooks read their Scan and write the counts of findings.",
		rules:       scanRules(),
	}
)

func scanRules(scan ...string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{group}, Resources: []string{"scans"}, ResourceNames: scan, Verbs: []string{"get"}},
		{APIGroups: []string{group}, Resources: []string{"scans/status"}, ResourceNames: scan, Verbs: []string{"get", "patch"}},
	}
}

// ConflictError says that a RoleBinding of a needed name binds another Role. A roleRef cannot be
// changed; a user has to delete the RoleBinding.
type ConflictError struct{ Namespace, Name, RoleRef string }

// Error says which object to delete.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("RoleBinding %s/%s binds %s, not Role %s; delete it, and the operator makes a new one", e.Namespace, e.Name, e.RoleRef, e.Name)
}

// Conflict returns the object that a user has to delete where an error says that a needed name is
// taken by another object.
func Conflict(err error) (remedy string, ok bool) {
	if e, ok := errors.AsType[*ConflictError](err); ok {
		return e.Error(), true
	}
	if e, ok := errors.AsType[*ForeignAccountError](err); ok {
		return e.Error(), true
	}
	return "", false
}

// Access makes ServiceAccounts, Roles and RoleBindings. It is safe for concurrent use.
type Access struct {
	// reader has no cache of all accounts and Roles of the cluster, see NewReader.
	reader client.Reader
	writer client.Writer
	clock  clock.PassiveClock
	mode   Mode

	mu   sync.Mutex
	seen map[types.NamespacedName]time.Time
	// secrets are the pull secrets of accounts, by account, as last seen.
	secrets map[types.NamespacedName]pullSecrets
}

type pullSecrets struct {
	at   time.Time
	refs []corev1.LocalObjectReference
}

// Doubt makes the operator check the accounts of a namespace again before the next Scan starts there.
func (a *Access) Doubt(namespace string) {
	for _, acc := range []account{lurker, parser, hook} {
		a.forget(types.NamespacedName{Namespace: namespace, Name: acc.name})
	}
}

// Mode decides which pods share an account.
type Mode int

const (
	// PerScan gives the parser and the hooks of each Scan an account of their own.
	PerScan Mode = iota
	// Shared gives the pods of all Scans of a namespace the accounts parser and scan-completion-hook, as
	// secureCodeBox does.
	Shared
)

// New returns an Access. The reader is one of NewReader, or asks the API server.
func New(reader client.Reader, writer client.Writer, c clock.PassiveClock, mode Mode) *Access {
	return &Access{
		reader: reader, writer: writer, clock: c, mode: mode, seen: map[types.NamespacedName]time.Time{},
		secrets: map[types.NamespacedName]pullSecrets{},
	}
}

// EnsureLurker makes sure that scanner pods can run in a namespace.
func (a *Access) EnsureLurker(ctx context.Context, namespace string) error {
	return a.ensure(ctx, namespace, lurker)
}

// EnsureParser makes sure that the parser of a Scan can reach the Scan, and returns the ServiceAccount
// that the parser runs as. The result type names the ParseDefinition that the parser reads.
func (a *Access) EnsureParser(ctx context.Context, scan *executionv1.Scan, resultType string) (string, error) {
	if a.mode == Shared {
		return parser.name, a.ensure(ctx, scan.Namespace, parser)
	}
	return a.ensureScan(ctx, scan, resultType, false)
}

// MakeParser does the same for a Scan that begins. Where the account is not there yet, nothing is read.
func (a *Access) MakeParser(ctx context.Context, scan *executionv1.Scan, resultType string) (string, error) {
	if a.mode == Shared {
		return parser.name, a.ensure(ctx, scan.Namespace, parser)
	}
	return a.ensureScan(ctx, scan, resultType, true)
}

// EnsureHook does the same for hooks without a ServiceAccount of their own that run in
// the Scan's namespace.
func (a *Access) EnsureHook(ctx context.Context, scan *executionv1.Scan, resultType string) (string, error) {
	if a.mode == Shared {
		return hook.name, a.ensure(ctx, scan.Namespace, hook)
	}
	return a.ensureScan(ctx, scan, resultType, false)
}

func (a *Access) ensure(ctx context.Context, namespace string, acc account) error {
	key := types.NamespacedName{Namespace: namespace, Name: acc.name}
	if a.fresh(key) {
		return nil
	}
	if err := a.ensureServiceAccount(ctx, namespace, acc); err != nil {
		return err
	}
	if err := a.ensureRole(ctx, newRole(namespace, acc)); err != nil {
		return err
	}
	if err := a.ensureBinding(ctx, newBinding(namespace, acc)); err != nil {
		return err
	}
	a.remember(key)
	return nil
}

func (a *Access) remember(key types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen[key] = a.clock.Now()
}

func (a *Access) forget(key types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.seen, key)
}

// fresh reports whether an account was seen a moment ago, and drops old entries, so that deleted
// namespaces do not accumulate.
func (a *Access) fresh(key types.NamespacedName) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	at, ok := a.seen[key]
	if ok && now.Sub(at) < trusted {
		return true
	}
	for k, at := range a.seen {
		if now.Sub(at) >= trusted {
			delete(a.seen, k)
		}
	}
	return false
}

func (a *Access) ensureServiceAccount(ctx context.Context, namespace string, acc account) error {
	var have corev1.ServiceAccount
	err := a.reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: acc.name}, &have)
	if apierrors.IsNotFound(err) {
		err = exists(a.writer.Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta(namespace, acc)}, uncached))
	}
	if err != nil {
		return fmt.Errorf("ensure ServiceAccount %s/%s: %w", namespace, acc.name, err)
	}
	return nil
}

// ensureRole makes a Role, or adds the rules that an existing one lacks. Rules that a user has added
// stay.
func (a *Access) ensureRole(ctx context.Context, want *rbacv1.Role) error {
	var have rbacv1.Role
	err := a.reader.Get(ctx, client.ObjectKeyFromObject(want), &have)
	switch {
	case apierrors.IsNotFound(err):
		err = exists(a.writer.Create(ctx, want, uncached))
	case err == nil:
		covered, missing := validation.Covers(have.Rules, want.Rules)
		if covered {
			return nil
		}
		changed := have.DeepCopy()
		changed.Rules = append(changed.Rules, missing...)
		err = a.writer.Patch(ctx, changed, client.MergeFromWithOptions(&have, client.MergeFromWithOptimisticLock{}), uncached)
	}
	if err != nil {
		return fmt.Errorf("ensure Role %s/%s: %w", want.Namespace, want.Name, err)
	}
	return nil
}

func (a *Access) ensureBinding(ctx context.Context, want *rbacv1.RoleBinding) error {
	var have rbacv1.RoleBinding
	err := a.reader.Get(ctx, client.ObjectKeyFromObject(want), &have)
	switch {
	case apierrors.IsNotFound(err):
		err = exists(a.writer.Create(ctx, want, uncached))
	case err == nil && have.RoleRef != want.RoleRef:
		return &ConflictError{Namespace: want.Namespace, Name: want.Name, RoleRef: have.RoleRef.Kind + " " + have.RoleRef.Name}
	case err == nil:
		if binds(&have, want.Subjects[0]) {
			return nil
		}
		changed := have.DeepCopy()
		changed.Subjects = append(changed.Subjects, want.Subjects...)
		err = a.writer.Patch(ctx, changed, client.MergeFromWithOptions(&have, client.MergeFromWithOptimisticLock{}), uncached)
	}
	if err != nil {
		return fmt.Errorf("ensure RoleBinding %s/%s: %w", want.Namespace, want.Name, err)
	}
	return nil
}

// binds reports whether a binding names a subject. An empty namespace is the namespace of the binding.
func binds(b *rbacv1.RoleBinding, want rbacv1.Subject) bool {
	for _, s := range b.Subjects {
		if s.Kind == want.Kind && s.Name == want.Name && cmp.Or(s.Namespace, b.Namespace) == cmp.Or(want.Namespace, b.Namespace) {
			return true
		}
	}
	return false
}

func newRole(namespace string, acc account) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: meta(namespace, acc), Rules: acc.rules}
}

func newBinding(namespace string, acc account) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: meta(namespace, acc),
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: acc.name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: acc.name},
	}
}

func meta(namespace string, acc account) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: acc.name, Annotations: map[string]string{"description": acc.description}}
}

// exists takes AlreadyExists for success: another pass was faster.
func exists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

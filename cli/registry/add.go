// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/cli/output"
	"github.com/scanyard/scanyard/cli/session"
)

// addOptions are the flags of add.
type addOptions struct {
	session *session.Session
	out     *output.Flags

	name, secret, kind, semver, newestBy, insecure, adapter  string
	discovery, scan, discoverySchedule, scanSchedule, maxAge string

	repositories, excluded, platforms, include, exclude []string
	expression                                          string
	newest                                              int32
	dryRun                                              bool
}

func newAddCommand(s *session.Session) *cobra.Command {
	o := &addOptions{session: s, out: output.New(s, "created", false)}
	cmd := &cobra.Command{
		Use:   "add URL",
		Short: "Have a registry looked at: make a Registry",
		Long: `Make a Registry, which has a registry looked at. Without --repo all repositories of its catalogue are
taken, without --platform all platforms, without a rule for tags all tags. Without a period or
schedule images are looked for by hand only.

With --dry-run the API server checks the Registry and stores nothing; -o yaml prints it.`,
		Example: `  {{program}} registry add https://registry.example.com --repo 'shop/*' --platform linux/amd64 --newest 5 --every 1h --rescan-every 1d
  {{program}} registry add docker.io --repo library/nginx --semver '>=1.25' --dry-run -o yaml
  {{program}} registry add https://registry.example.com --secret registry-pull`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[0])
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "", "`name` of the Registry (default: made of its host)")
	f.StringVar(&o.kind, "type", "", "kind of registry: oci, docker, ecr, gcr, acr, ghcr, quay, harbor")
	f.StringVar(&o.secret, "secret", "", "`Secret` of the namespace with the credentials; workers need \"registry grant\" to read it")
	f.StringArrayVar(&o.repositories, "repo", nil, "`repository` to take: name, name:tag, name@digest, with * and **; may be given several times")
	f.StringArrayVar(&o.excluded, "exclude-repo", nil, "`repository` to leave out; may be given several times")
	f.StringArrayVar(&o.platforms, "platform", nil, "`platform` to take, such as linux/amd64; may be given several times")
	f.StringArrayVar(&o.include, "include", nil, "`tags` to take, with * and ?; may be given several times")
	f.StringArrayVar(&o.exclude, "exclude", nil, "`tags` to leave out; may be given several times")
	f.StringVar(&o.semver, "semver", "", "take tags that are versions in this `range`, such as '>=1.2 <2'; '*' for all versions")
	f.StringVar(&o.expression, "expression", "", "take tags for which this CEL `expression` is true")
	f.StringVar(&o.maxAge, "max-age", "", "take images that are not older than this `time`, such as 90d")
	f.Int32Var(&o.newest, "newest", 0, "take only so many of the newest images of each repository")
	f.StringVar(&o.newestBy, "newest-by", "", "what newest means: Created, SemVer, Name")
	f.StringVar(&o.discovery, "every", "", "look for new images so often, such as 1h")
	f.StringVar(&o.scan, "rescan-every", "", "look at all images again so often, such as 1d")
	f.StringVar(&o.discoverySchedule, "schedule", "", "look for new images by this cron `expression`")
	f.StringVar(&o.scanSchedule, "rescan-schedule", "", "look at all images again by this cron `expression`")
	f.StringVar(&o.insecure, "insecure", "", "give up a part of TLS: SkipVerify, PlainHTTP")
	f.StringVar(&o.adapter, "adapter", "", "`adapter` that makes SBOMs and matches them (default: that of the installation)")
	f.BoolVar(&o.dryRun, "dry-run", false, "check the Registry, and store nothing")
	o.out.Bind(cmd)
	return cmd
}

func (o *addOptions) run(ctx context.Context, text string) error {
	if err := o.out.Check(); err != nil {
		return err
	}
	c, namespace, err := o.session.Connect()
	if err != nil {
		return err
	}
	registry, err := o.object(namespace, text)
	if err != nil {
		return err
	}
	var options []client.CreateOption
	if o.dryRun {
		options = append(options, client.DryRunAll)
	}
	if err := c.Create(ctx, registry, options...); err != nil {
		return explain(o.session, fmt.Errorf("create Registry: %w", err))
	}
	if o.out.Set() {
		return o.out.Print(o.session, registry)
	}
	if o.dryRun {
		fmt.Fprintf(o.session.Out, "registry/%s created (dry run)\n", registry.Name)
		return nil
	}
	fmt.Fprintf(o.session.Out, "registry/%s created\n", registry.Name)
	if o.secret != "" {
		fmt.Fprintf(o.session.ErrOut, "Let workers read the Secret: %s\n", o.session.Suggest("registry", "grant", registry.Name))
	}
	fmt.Fprintf(o.session.ErrOut, "Look at the registry now: %s\n", o.session.Suggest("registry", "discover", registry.Name, "--wait"))
	return nil
}

func (o *addOptions) object(namespace, text string) (*registryv1alpha1.Registry, error) {
	address, err := addressOf(text, o.insecure == string(registryv1alpha1.PlainHTTP))
	if err != nil {
		return nil, err
	}
	r := &registryv1alpha1.Registry{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: cmp.Or(o.name, nameOf(address.Host))}}
	spec := &r.Spec
	spec.URL, spec.Type, spec.Insecure, spec.Adapter = address.String(), registryv1alpha1.Type(o.kind), registryv1alpha1.Insecure(o.insecure), o.adapter
	if o.secret != "" {
		spec.Auth = &registryv1alpha1.Auth{SecretName: o.secret}
	}
	spec.Repositories, spec.ExcludeRepositories, spec.Platforms = o.repositories, o.excluded, o.platforms
	spec.DiscoveryPeriod, spec.ScanPeriod = registryv1alpha1.Period(o.discovery), registryv1alpha1.Period(o.scan)
	spec.DiscoverySchedule, spec.ScanSchedule = registryv1alpha1.Schedule(o.discoverySchedule), registryv1alpha1.Schedule(o.scanSchedule)
	tags := registryv1alpha1.TagFilter{
		Include: o.include, Exclude: o.exclude, Expression: o.expression, MaxAge: o.maxAge, NewestBy: registryv1alpha1.NewestBy(o.newestBy),
	}
	if o.newest < 0 {
		return nil, errors.New("--newest must be 1 or more")
	}
	if o.newest > 0 {
		tags.Newest = &o.newest
	}
	if o.semver != "" {
		tags.SemVer = &registryv1alpha1.SemVer{Range: o.semver}
	}
	if o.hasTags() {
		spec.Tags = &tags
	}
	return r, nil
}

func (o *addOptions) hasTags() bool {
	return len(o.include)+len(o.exclude) > 0 || o.newest > 0 || o.semver+o.expression+o.maxAge+o.newestBy != ""
}

// addressOf reads the address of a registry; a host alone is one with https.
func addressOf(text string, plain bool) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		scheme := "https://"
		if plain {
			scheme = "http://"
		}
		text = scheme + text
	}
	address, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%q is not an address of a registry, such as https://registry.example.com", text)
	case address.Scheme == "http" && !plain:
		return nil, fmt.Errorf("%s speaks without TLS: say so with --insecure PlainHTTP", text)
	case address.Host == "" || address.Path != "" && address.Path != "/" || address.User != nil || address.RawQuery != "" || address.Fragment != "":
		return nil, fmt.Errorf("%q must be https://host or https://host:port: repositories are given with --repo", text)
	}
	if isDockerHub(address.Host) {
		address.Host = "registry-1.docker.io"
	}
	return address, nil
}

var notInNames = regexp.MustCompile(`[^a-z0-9.-]+`)

// nameOf makes a name for a Registry of its host.
func nameOf(host string) string {
	if isDockerHub(host) {
		return "docker.io"
	}
	return strings.Trim(notInNames.ReplaceAllString(strings.ToLower(host), "-"), "-.")
}

// credentials is the name of the Role and RoleBinding by which workers read Secrets of a namespace.
const credentials = "registry-worker-credentials"

func newGrantCommand(s *session.Session) *cobra.Command {
	worker := ""
	cmd := &cobra.Command{
		Use:   "grant NAME",
		Short: "Let workers read the Secret of a Registry",
		Long: `Let workers read the Secret that a Registry names, and no other: a Role that names the Secret, and a
RoleBinding for the account of the workers. You need the right to read the Secret yourself, and to
make Roles.`,
		Example: `  {{program}} registry grant prod
  {{program}} registry grant prod --worker-namespace security`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: names(s),
		RunE: func(cmd *cobra.Command, args []string) error { return grant(cmd.Context(), s, args[0], worker) },
	}
	cmd.Flags().StringVar(&worker, "worker-namespace", "scanyard-system", "`namespace` of the workers, where the chart registry is installed")
	return cmd
}

func grant(ctx context.Context, s *session.Session, name, worker string) error {
	c, registry, err := find(ctx, s, name)
	if err != nil {
		return err
	}
	if registry.Spec.Auth == nil || registry.Spec.Auth.SecretName == "" {
		return fmt.Errorf("registry %s names no Secret in spec.auth.secretName: there is nothing to grant", name)
	}
	secret := registry.Spec.Auth.SecretName
	err = c.Get(ctx, client.ObjectKey{Namespace: registry.Namespace, Name: secret}, &corev1.Secret{})
	if apierrors.IsNotFound(err) {
		how := fmt.Sprintf("kubectl -n %s create secret docker-registry %s", registry.Namespace, secret)
		return fmt.Errorf("there is no Secret %q in namespace %s: make it first, with %s", secret, registry.Namespace, how)
	}
	if err != nil {
		return s.Explain(fmt.Errorf("get Secret %s: %w", secret, err))
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: registry.Namespace, Name: credentials}}
	if err := grantRole(ctx, c, role, secret); err != nil {
		return s.Explain(fmt.Errorf("write Role %s: %w", credentials, err))
	}
	if err := grantBinding(ctx, c, registry.Namespace, worker); err != nil {
		return s.Explain(fmt.Errorf("write RoleBinding %s: %w", credentials, err))
	}
	fmt.Fprintf(s.Out, "workers of namespace %s may read secret/%s\n", worker, secret)
	return nil
}

// grantRole adds a Secret to those that the Role names.
func grantRole(ctx context.Context, c client.Client, role *rbacv1.Role, secret string) error {
	rule := rbacv1.PolicyRule{APIGroups: []string{corev1.GroupName}, Resources: []string{"secrets"}, Verbs: []string{"get"}, ResourceNames: []string{secret}}
	err := c.Get(ctx, client.ObjectKeyFromObject(role), role)
	if apierrors.IsNotFound(err) {
		role.Rules = []rbacv1.PolicyRule{rule}
		return c.Create(ctx, role)
	}
	if err != nil {
		return err
	}
	for i := range role.Rules {
		if r := &role.Rules[i]; slices.Contains(r.Resources, "secrets") && slices.Contains(r.Verbs, "get") &&
			(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, secret)) {
			return nil
		}
	}
	before := role.DeepCopy()
	role.Rules = append(role.Rules, rule)
	return c.Patch(ctx, role, client.MergeFrom(before))
}

// grantBinding adds the account of the workers to those that have the Role.
func grantBinding(ctx context.Context, c client.Client, namespace, worker string) error {
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: worker, Name: "registry-worker"}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: credentials}, Subjects: []rbacv1.Subject{subject},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: credentials},
	}
	err := c.Create(ctx, binding)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(binding), binding); err != nil {
		return err
	}
	if slices.Contains(binding.Subjects, subject) {
		return nil
	}
	before := binding.DeepCopy()
	binding.Subjects = append(binding.Subjects, subject)
	return c.Patch(ctx, binding, client.MergeFrom(before))
}

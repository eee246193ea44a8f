// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cascadingv1 "github.com/scanyard/scanyard/apis/cascading/v1"
	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/cli/termsafe"
)

// Session is one call of the command line.
type Session struct {
	// IOStreams are guarded: no text can control the terminal, see Data and Control.
	genericiooptions.IOStreams

	// ConfigFlags are kubectl's flags; --namespace, --context and the like.
	ConfigFlags *genericclioptions.ConfigFlags
	// Program is how the user calls the program: "scanyard" or "kubectl scanyard". Commands in messages
	// begin with it.
	Program string
	// Now is the clock.
	Now func() time.Time
	// Version is the version of this program.
	Version string
	// Args are the arguments of this call, without the program; nil if unknown.
	Args []string
	// Color says whether texts on stdout are colored: stdout is a terminal, and NO_COLOR is not set; or --color says so.
	Color bool
	// Columns is the width of stdout's terminal, or 0 if stdout is not a terminal.
	Columns int
	// Live says whether stderr is a terminal on which lines can be redrawn.
	Live bool
	// HTTP downloads from object storage.
	HTTP *http.Client

	scheme  *runtime.Scheme
	streams *streams
}

// Options are the inputs of New.
type Options struct {
	Streams genericiooptions.IOStreams
	Program string
	Version string
	// Args are the arguments of the process, without the program.
	Args []string
	// Getenv reads the environment; only NO_COLOR and TERM are read.
	Getenv func(string) string
	Now    func() time.Time
}

// New makes a session. It reads neither a kubeconfig nor a cluster yet.
func New(o Options) (*Session, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme),
		executionv1.AddToScheme(scheme), cascadingv1.AddToScheme(scheme), settingsv1alpha2.AddToScheme(scheme), registryv1alpha1.AddToScheme(scheme),
		reportsv1.AddToScheme(scheme))
	if err != nil {
		return nil, fmt.Errorf("make scheme: %w", err)
	}
	s := &Session{
		IOStreams: o.Streams, Program: o.Program, Now: o.Now, Version: o.Version, Args: o.Args, scheme: scheme,
		ConfigFlags: genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag(),
		HTTP:        &http.Client{},
		streams:     &streams{},
	}
	s.Out = s.streams.guarded(o.Streams.Out, termsafe.Replace)
	s.ErrOut = s.streams.guarded(o.Streams.ErrOut, termsafe.Replace)
	s.ConfigFlags.WrapConfigFn = func(c *rest.Config) *rest.Config {
		c.QPS, c.Burst = -1, -1 // the API server's own fairness decides
		c.UserAgent = "scanyard/" + o.Version
		return c
	}
	plain := o.Getenv("NO_COLOR") != "" || o.Getenv("TERM") == "dumb"
	s.Color = IsTerminal(o.Streams.Out) && !plain
	s.Columns = width(o.Streams.Out)
	s.Live = IsTerminal(o.Streams.ErrOut) && o.Getenv("TERM") != "dumb"
	return s, nil
}

// PluginProgram is how the user calls the commands for reports as a plugin of their own.
const PluginProgram = "kubectl prext"

// ErrorWord begins the line of an error. Scripts rely on the plugin's word.
func (s *Session) ErrorWord() string {
	if s.Program == PluginProgram {
		return "Error:"
	}
	return "error:"
}

// Width is the width of the terminal of stderr in columns, or 0 if stderr is not a terminal.
func (s *Session) Width() int { return width(s.ErrOut) }

func width(stream io.Writer) int {
	f, ok := file(stream)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// BindFlags adds kubectl's flags, without the short one of --server: "scan nmap -sV host" would send the credentials of
// the kubeconfig to a server called V.
func (s *Session) BindFlags(flags *pflag.FlagSet) {
	kubectls := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.ConfigFlags.AddFlags(kubectls)
	kubectls.VisitAll(func(f *pflag.Flag) {
		if f.Name == "server" {
			f.Shorthand = ""
		}
		flags.AddFlag(f)
	})
}

// Scheme knows the kinds of Kubernetes and ours.
func (s *Session) Scheme() *runtime.Scheme { return s.scheme }

// Namespace is the namespace of --namespace, or else of the kubeconfig's context.
func (s *Session) Namespace() (string, error) {
	ns, _, err := s.ConfigFlags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", s.Explain(err)
	}
	return ns, nil
}

// Config returns how to reach the API server. The address that clients of Kubernetes take where none is configured is not asked: what listens
// there may be any program of this machine.
func (s *Session) Config() (*rest.Config, error) {
	c, err := s.ConfigFlags.ToRESTConfig()
	if err != nil {
		return nil, s.Explain(err)
	}
	raw, err := s.ConfigFlags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, s.Explain(err)
	}
	if len(raw.Clusters) == 0 && *s.ConfigFlags.APIServer == "" && strings.TrimPrefix(c.Host, "http://") == unconfigured {
		return nil, errors.New(noCluster)
	}
	return c, nil
}

// Client reads, writes and watches typed objects, without a cache.
func (s *Session) Client() (client.WithWatch, error) {
	config, err := s.Config()
	if err != nil {
		return nil, err
	}
	mapper, err := s.ConfigFlags.ToRESTMapper()
	if err != nil {
		return nil, s.Explain(err)
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: s.scheme, Mapper: mapper})
	if err != nil {
		return nil, s.Explain(err)
	}
	return c, nil
}

// Clientset is for what typed objects do not cover: logs and discovery.
func (s *Session) Clientset() (kubernetes.Interface, error) {
	config, err := s.Config()
	if err != nil {
		return nil, err
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, s.Explain(err)
	}
	return c, nil
}

// Connect returns a client and the namespace, which most commands need.
func (s *Session) Connect() (client.WithWatch, string, error) {
	ns, err := s.Namespace()
	if err != nil {
		return nil, "", err
	}
	c, err := s.Client()
	return c, ns, err
}

// Scan reads one Scan. The error for a name that does not exist has similar names.
func (s *Session) Scan(ctx context.Context, c client.Client, namespace, name string) (*executionv1.Scan, error) {
	scan := &executionv1.Scan{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, scan)
	if err == nil {
		return scan, nil
	}
	return nil, s.Missing(ctx, c, err, "Scan", namespace, name, &executionv1.ScanList{})
}

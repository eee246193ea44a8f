// SPDX-License-Identifier: Apache-2.0

// Command pull-secret-extractor is the init container secret-extraction-to-env of scans
// that auto-discovery makes for images with pull secrets.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/scanyard/scanyard/discovery/internal/pullsecret"
)

const usage = `pull-secret-extractor finds the credentials for an image in the pull secrets below
a folder and stores them in a Secret of the pod it runs in, with the keys username and
password.

The variables POD_NAME, NAMESPACE and POD_UID name the pod.

Exit codes: 0 stored, 1 the API server refused or could not be reached, 2 wrong use,
3 no pull secret has credentials for the image, 4 a pull secret cannot be read.

Flags:
`

// Exit codes.
const (
	exitAPI    = 1
	exitUsage  = 2
	exitNone   = 3
	exitSecret = 4
)

// timeout is for all calls to the API server together.
const timeout = 2 * time.Minute

func main() { os.Exit(untilSignal()) }

func untilSignal() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, os.Args[1:], os.Getenv, os.Stderr)
}

func run(ctx context.Context, args []string, getenv func(string) string, stderr io.Writer) int {
	flags := flag.NewFlagSet("pull-secret-extractor", flag.ContinueOnError)
	flags.SetOutput(stderr)
	imageID := flags.String("imageID", "", "`reference` of the image that is going to be scanned")
	name := flags.String("secret", "", "`name` of the Secret to make")
	folder := flags.String("secrets-folder", "/secrets", "`folder` with the pull secrets, one folder each")
	kubeconfig := flags.String("kubeconfig", "", "`file` that says how to reach the API server; inside a pod it is not needed")
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return exitUsage
	}
	fail := func(code int, err error) int {
		fmt.Fprintf(stderr, "pull-secret-extractor: %v\n", err)
		return code
	}
	pod := pullsecret.Pod{Name: getenv("POD_NAME"), Namespace: getenv("NAMESPACE"), UID: types.UID(getenv("POD_UID"))}
	img, err := pullsecret.ParseImage(*imageID)
	if err := errors.Join(pod.Validate(), err); err != nil {
		return fail(exitUsage, err)
	}
	files, err := pullsecret.ReadFiles(os.DirFS(*folder))
	if err != nil {
		return fail(exitSecret, err)
	}
	credentials, err := pullsecret.Find(img, files, func(err error) {
		fmt.Fprintf(stderr, "pull-secret-extractor: a pull secret is passed over: %v\n", err)
	})
	if errors.Is(err, pullsecret.ErrNoCredentials) {
		return fail(exitNone, err)
	}
	if err != nil {
		return fail(exitSecret, err)
	}
	secret, err := pullsecret.NewSecret(*name, pod, credentials)
	if err != nil {
		return fail(exitUsage, err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fail(exitUsage, err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fail(exitUsage, err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	outcome, err := pullsecret.Store(ctx, client, secret)
	if err != nil {
		return fail(exitAPI, err)
	}
	if outcome == pullsecret.Kept {
		fmt.Fprintf(
			stderr,
			"pull-secret-extractor: the Secret %s/%s of an earlier pod of this scan is used, since it may not be refreshed; where its credentials no longer "+
				"work, delete that pod\n",
			pod.Namespace, *name,
		)
		return 0
	}
	fmt.Fprintf(stderr, "pull-secret-extractor: credentials for %s are in the Secret %s/%s\n", img.Host, pod.Namespace, *name)
	return 0
}

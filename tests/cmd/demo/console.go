// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/tests/browser/chromium"
	"github.com/scanyard/scanyard/tests/install"
)

// player is the account that people of "up" sign in to the console as.
const player = "player"

// token is one to sign in to the console with, for all that there is in the cluster.
func (y *yard) token(ctx context.Context) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: install.Namespace, Name: player}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: player},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: install.Namespace, Name: player}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}
	for _, o := range []client.Object{account, binding} {
		if err := y.admin.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return "", fmt.Errorf("make the account %s: %w", player, err)
		}
	}
	const lifetime = 12 * 60 * 60
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(lifetime))}}
	if err := y.admin.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("make a token of %s: %w", player, err)
	}
	return request.Status.Token, nil
}

const (
	// pictureName is the file of the picture, beside the programs.
	pictureName = "demo-console.png"
	// pictureTimeout bounds what a browser takes on a busy machine.
	pictureTimeout = 2 * time.Minute
)

// picture has a browser show the console's overview, and keeps what it shows in a file.
func (y *yard) picture(ctx context.Context) (file string, err error) {
	if _, err := chromium.Find(); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, pictureTimeout)
	defer cancel()
	door, stop, err := y.openConsole(ctx)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, stop()) }()
	file = filepath.Join(y.programs.Bin, pictureName)
	return file, chromium.Picture(ctx, door, file, 1440, 1000)
}

// openConsole serves the console as the cluster's admin, and returns the address that opens it.
func (y *yard) openConsole(ctx context.Context) (door string, stop func() error, err error) {
	admin := y.commandLine()
	cmd := exec.CommandContext(ctx, admin.Path, "console", "--open=false")
	cmd.Env = append(os.Environ(), admin.Env...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, fmt.Errorf("start the console: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("start the console: %w", err)
	}
	stop = func() error {
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("end the console: %w", err)
		}
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("end the console: %w: %s", err, said.String())
		}
		return nil
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("the console prints no address: %w", err), stop())
	}
	return strings.TrimSpace(line), stop, nil
}

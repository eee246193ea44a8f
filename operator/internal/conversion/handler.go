// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"context"
	"errors"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	settingsv1alpha1 "github.com/scanyard/scanyard/apis/settings/v1alpha1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// Path is the path of conversion requests.
const Path = "/convert"

// NewHandler returns the handler of conversion requests. The handler needs no cache, no client and no leader.
func NewHandler() (http.Handler, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(settingsv1alpha1.AddToScheme(scheme), settingsv1alpha2.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	own, err := conversion.NewHubSpokeConverter(&settingsv1alpha2.ScanSetting{}, conversion.NewSpokeConverter(&settingsv1alpha1.ScanSetting{},
		func(_ context.Context, hub *settingsv1alpha2.ScanSetting, spoke *settingsv1alpha1.ScanSetting) error {
			*spoke = *settingsv1alpha2.ToV1alpha1(hub)
			return nil
		},
		func(_ context.Context, spoke *settingsv1alpha1.ScanSetting, hub *settingsv1alpha2.ScanSetting) error {
			*hub = *settingsv1alpha2.FromV1alpha1(spoke)
			return nil
		}))(scheme)
	if err != nil {
		return nil, err
	}
	cluster, err := conversion.NewHubSpokeConverter(&settingsv1alpha2.ClusterScanSetting{}, conversion.NewSpokeConverter(&settingsv1alpha1.ClusterScanSetting{},
		func(_ context.Context, hub *settingsv1alpha2.ClusterScanSetting, spoke *settingsv1alpha1.ClusterScanSetting) error {
			*spoke = *settingsv1alpha2.ClusterToV1alpha1(hub)
			return nil
		},
		func(_ context.Context, spoke *settingsv1alpha1.ClusterScanSetting, hub *settingsv1alpha2.ClusterScanSetting) error {
			*hub = *settingsv1alpha2.ClusterFromV1alpha1(spoke)
			return nil
		}))(scheme)
	if err != nil {
		return nil, err
	}
	registry := conversion.NewRegistry()
	group := settingsv1alpha2.SchemeGroupVersion
	err = errors.Join(
		registry.RegisterConverter(group.WithKind("ScanSetting").GroupKind(), own),
		registry.RegisterConverter(group.WithKind("ClusterScanSetting").GroupKind(), cluster),
	)
	if err != nil {
		return nil, err
	}
	return conversion.NewWebhookHandler(scheme, registry), nil
}

//go:build !sbxrun_weaken

package direct

func image() ([]byte, error) { return launcherImage, nil }

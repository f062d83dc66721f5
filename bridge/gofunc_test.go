package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sbxrun/sbxrun/bridge"
	"github.com/sbxrun/sbxrun/bridge/gofunc"
	"github.com/sbxrun/sbxrun/errdef"
)

func TestFunc(t *testing.T) {
	type in struct {
		City string  `json:"city" jsonschema:"where"`
		Days int     `json:"days,omitempty"`
		Any  any     `json:"any,omitempty"`
		F    float64 `json:"f,omitempty"`
	}
	type out struct {
		Text string `json:"text"`
		Any  any    `json:"any"`
	}
	tool, err := gofunc.New("f", "d", func(_ context.Context, a in) (out, error) {
		switch a.City {
		case "err":
			return out{}, errors.New("secret /host")
		case "typed":
			return out{}, &bridge.ToolError{Type: "CityError", Message: "no city"}
		}
		return out{Text: fmt.Sprint(a.City, a.Days), Any: a.Any}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	nan, err := gofunc.New("nan", "", func(context.Context, struct{}) (any, error) { return make(chan int), nil })
	if err != nil {
		t.Fatal(err)
	}
	r := bridge.NewRig(t, tool, nan)
	for i, c := range []struct{ tool, args, want string }{
		{"f", `{"city":"Rome","days":3}`, `{"text":"Rome3","any":null}`},
		{"f", `{"city":"x","any":[9007199254740993]}`, `{"text":"x0","any":[9007199254740993]}`},
		{"f", `{"city":"x","days":1.5}`, `invalid_args`},
		{"f", `{"city":"x","days":99999999999999999999}`, `invalid_args`},
		{"f", `{"City":"x"}`, `invalid_args`},
		{"f", `{"city":"x","more":1}`, `invalid_args`},
		{"f", `{"city":"\ud800"}`, `invalid_args`},
		{"f", `{"city":"\ud83d\ude00"}`, `{"text":"😀0","any":null}`},
		{"f", `{"city":"x","f":{"$sbx":"float","v":"nan"}}`, `invalid_args`},
		{"f", `{"city":"err"}`, `ToolError: the tool failed`},
		{"f", `{"city":"typed"}`, `CityError: no city`},
		{"nan", `{}`, `cannot be written`},
	} {
		result, failure := r.Ask(fmt.Sprint("f", i), fmt.Sprintf(`{"tool":%q,"args":%s}`, c.tool, c.args))
		if result != c.want && (failure == "" || !strings.Contains(failure, c.want)) {
			t.Errorf("%s: got %s %s, want %s", c.args, result, failure, c.want)
		}
	}
	if _, err := gofunc.New("f", "", func(context.Context, int) (int, error) { return 0, nil }); !errdef.Is(err, errdef.Invalid) {
		t.Errorf("int argument: %v", err)
	}
	if _, err := gofunc.New("f", "", func(context.Context, *in) (int, error) { return 0, nil }); err != nil {
		t.Errorf("pointer argument: %v", err)
	}
}

package mask

import "testing"

func TestArgumentsOfCommandLines(t *testing.T) {
	var m Mask
	m.AddObject(map[string]any{"apiVersion": "v1", "kind": "Secret", "stringData": map[string]any{"a": "hunter22", "b": "x1,y2=z3"}})
	for _, c := range []struct{ flag, value, want string }{
		{"set", "a=b", "a=b"},
		{"set", "a=b,c.d[0]=1", "a=b,c.d[0]=1"},
		{"set", "db.password=x", "db.password=…"},
		{"set", "a=b,db.passwords[0].token=x,c=d", "a=b,db.passwords[0].token=…,…"},
		{"set", `password=x\,y,c=d`, "password=…,…"},
		{"set", "password={a,b=c},c=d", "password=…,…"},
		{"set", "password=x,rest,a=b", "password=…,…,…"},
		{"set", "tokens[0]=hunter22", "tokens[0]=…"},
		{"set", "a=it{,password=x", "a=it{,password=…"},
		{"set", `a=it",password=x`, `a=it",password=…`},
		{"set", "a=1,password=abc,SeCr3t=xyz", "a=1,password=…,…"},
		{"set", `password="abc,SeCr3t=xyz"`, "password=…,…"},
		{"set", "password={a}b,SeCr3t=xyz", "password=…,…,…"},
		{"set-json", `a={"b":{"c":1},"password":"x,y"}`, "a=…"},
		{"set-json", `password="x",a={"b":"c,d"}`, `password=…,a={"b":"c,d"}`},
		{"set-json", `password="x,SeCr3t=xyz`, "password=…"},
		{"set", "a=hunter22,c=d", "a=…,…"},
		{"set-literal", "a=x1,y2=z3", "a=…"},
		{"set-literal", "password=a,b=c", "password=…"},
		{"set", "auth=true,b=c", "auth=true,b=c"},
		{"set-json", `{"db": {"password": "x", "port": 1}}`, "…"},
		{"set-json", `db={"password": "x"},a=[1,2]`, "db=…,a=[1,2]"},
		{"set-json", `{"db": {"port": 1}}`, `{"db": {"port": 1}}`},
		{"repo", "https://user:pw@charts.example", "…"},
		{"repo", "https://charts.example", "https://charts.example"},
		{"values", "https://charts.example/v.yaml?X-Amz-Signature=0f3a&x=1", "…"},
		{"password", "x", "…"},
		{"kube-token", "x", "…"},
		{"key-file", "client.key", "client.key"},
		{"post-renderer-args", "--token=x", "--token=…"},
		{"post-renderer-args", `{"db":{"password":"x","port":1}}`, "…"},
		{"description", "labels a, b and c", "labels a, b and c"},
		{"selector", "token=x,b=c", "token=…"},
		{"set", "a=one\ntwo", "…"},
	} {
		if got := m.Argument(c.flag, c.value); got != c.want {
			t.Errorf("--%s %s: %s, want %s", c.flag, c.value, got, c.want)
		}
	}
	for path, want := range map[string]string{"db.password=pw.txt": "db.password=pw.txt", "a=hunter22": "…"} {
		if got := m.Path(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	var none *Mask
	if got := none.Argument("set", "a=b"); got != "a=b" {
		t.Errorf("without a mask: %s", got)
	}
}

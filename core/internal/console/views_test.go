package console_test

import (
	"net/url"
)

// view is a page as a person sees it, perhaps after a form.
type view struct {
	name, who, path string
	form            string // posted to the path first
}

func formName(form string) string {
	values, err := url.ParseQuery(form)
	if err != nil {
		panic(err)
	}
	return values.Get("do")
}

const (
	mine = "/console/p/" + mineID
	shop = mine + "/integrations/" + shopID
)

// views are the pages that the browser opens.
var views = []view{
	{"sign-in", "", "/console/sign-in", ""},
	{"sign-in-out", "", "/console/sign-in?out=1", ""},
	{"invitation", "", "/console/invitation?invitation=vrg_inv_good", ""},
	{"invitation-gone", "", "/console/invitation?invitation=used", ""},
	{"link", "", "/console/link?link=vrg_in_good", ""},
	{"account", "admin", "/console/account", ""},
	{"publishers", "operator", "/console/publishers", ""},
	{"account-stale", "late", "/console/account", ""},
	{"publishers-search", "operator", "/console/publishers?name=Nord", ""},
	{"publishers-search-none", "operator", "/console/publishers?name=nobody", ""},
	{"integrations-search", "developer", mine + "/integrations?name=Shop", ""},
	{"undelivered", "watcher", "/console/undelivered", ""},
	{"operators", "operator", "/console/operators", ""},
	{"methods", "operator", "/console/methods", ""},
	{"audit-all", "watcher", "/console/audit", ""},
	{"overview", "admin", mine, ""},
	{"overview-new", "newcomer", "/console/p/" + newID, ""},
	{"publisher", "operator", mine + "/settings", ""},
	{"integrations", "developer", mine + "/integrations", ""},
	{"integrations-none", "newcomer", "/console/p/" + newID + "/integrations", ""},
	{"new-integration", "developer", mine + "/integrations/new", ""},
	{"integration", "admin", shop, ""},
	{"integration-viewer", "viewer", shop, ""},
	{"integration-managed", "admin", mine + "/integrations/" + managedID, ""},
	{"integration-removed", "watcher", "/console/p/" + othersID + "/integrations/" + foreignID, ""},
	{"integration-archived", "admin", mine + "/integrations/" + oldID, ""},
	{"webhook", "admin", mine + "/integrations/" + kioskID + "/webhook", ""},
	{"webhook-staged", "admin", shop + "/webhook", ""},
	{"webhook-tested", "developer", mine + "/integrations/" + kioskID + "/webhook", "do=test-webhook"},
	{"webhook-rotated", "developer", shop + "/webhook", "do=rotate-secret&version={version}"},
	{"openid", "developer", shop + "/openid", ""},
	{"openid-none", "viewer", mine + "/integrations/" + kioskID + "/openid", ""},
	{"test", "developer", mine + "/test?integration=" + shopID, ""},
	{"test-none", "newcomer", "/console/p/" + newID + "/test", ""},
	{"test-sent", "developer", mine + "/test",
		"do=send-test-event&type=verification.started&integration_id=" + shopID},
	{"test-back", "developer", mine + "/test?session_id=" + sessionID + "&result_token=svc_rt_x", ""},
	{"test-session", "developer", mine + "/test", "do=start-test-session&integration_id=" + managedID},
	{"keys", "developer", mine + "/keys", ""},
	{"keys-made", "developer", mine + "/keys", "do=create-key"},
	{"keys-none", "newcomer", "/console/p/" + newID + "/keys", ""},
	{"deliveries", "developer", mine + "/deliveries?integration=" + shopID, ""},
	{"deliveries-none", "newcomer", "/console/p/" + newID + "/deliveries", ""},
	{"delivery", "developer", mine + "/deliveries/" + shopID + "/" + deliveryID, ""},
	{"delivery-dead", "developer", mine + "/deliveries/" + shopID + "/" + deadID, ""},
	{"sessions", "viewer", mine + "/sessions", ""},
	{"session", "viewer", mine + "/sessions/" + sessionID, ""},
	{"usage", "viewer", mine + "/usage?integration=" + shopID, ""},
	{"members", "admin", mine + "/members", ""},
	{"members-viewer", "viewer", mine + "/members", ""},
	{"audit", "viewer", mine + "/audit", ""},
	{"not-found", "viewer", mine + "/nothing", ""},
}

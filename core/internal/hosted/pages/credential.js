// The page that waits for a wallet. If the browser has the Digital Credentials API, the form sends a request to
// the wallets of the browser, and posts their response. The link and the code on the page work without this
// script.
(() => {
	"use strict";

	const form = document.querySelector("form[data-step=credential]");
	const known = "DigitalCredential" in self && navigator.credentials && navigator.credentials.get;
	if (!form || !known) {
		return;
	}
	const field = form.elements.credential;
	const button = form.querySelector("button");
	const says = form.querySelector("[data-part=says]");
	let asking = false;

	// decline posts the page's form for cancelling.
	const decline = () => {
		const cancel = document.querySelector("form[data-outcome=cancel]");
		if (cancel) {
			cancel.requestSubmit();
		}
	};

	// requests returns the requests of the page whose protocols the browser supports.
	const requests = () => {
		const { protocol, request, more } = form.dataset;
		const allows = DigitalCredential.userAgentAllowsProtocol;
		const all = [{ protocol, data: JSON.parse(request) }, ...JSON.parse(more)];
		return all.filter((one) => !allows || allows.call(DigitalCredential, one.protocol));
	};

	if (requests().length === 0) {
		return;
	}

	const ask = async () => {
		asking = true;
		button.setAttribute("aria-disabled", "true");
		says.textContent = form.dataset.asking;
		try {
			const { protocol, data } = await navigator.credentials.get({
				mediation: "required",
				digital: { requests: requests() },
			});
			field.value = JSON.stringify({ protocol, data });
			form.submit();
		} catch (error) {
			asking = false;
			if (error.name === "NotAllowedError") {
				decline();
				return;
			}
			button.removeAttribute("aria-disabled");
			says.textContent = form.dataset.failed;
		}
	};

	form.addEventListener("submit", (event) => {
		event.preventDefault();
		if (!asking) {
			ask();
		}
	});
	addEventListener("pageshow", (event) => {
		if (event.persisted) {
			location.reload();
		}
	});
	form.hidden = false;
})();

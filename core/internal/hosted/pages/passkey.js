// A page on which a passkey is created or used. Its form is hidden until this script has found that the
// browser supports passkeys. The redirect page continues to the site automatically if there is no form.
(async () => {
	"use strict";

	const form = document.querySelector("form[data-passkey]");
	const hop = document.querySelector("a[data-hop]");
	if (!form) {
		return;
	}
	const makes = form.dataset.step === "enrol";
	const leave = () => {
		if (hop) {
			location.replace(hop.href);
		}
	};

	// A new passkey is useful if the device itself can store it. An existing passkey may be on any device.
	const able = async () => {
		if (!window.PublicKeyCredential || !navigator.credentials) {
			return false;
		}
		return !makes || PublicKeyCredential.isUserVerifyingPlatformAuthenticatorAvailable();
	};
	if (!(await able().catch(() => false))) {
		leave();
		return;
	}

	// In JSON, bytes are base64url.
	const decode = (text) =>
		Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
	const encode = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes)))
		.replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

	const readOptions = () => {
		const options = JSON.parse(form.dataset.options);
		options.challenge = decode(options.challenge);
		if (options.user) {
			options.user.id = decode(options.user.id);
		}
		return options;
	};

	const write = (credential) => {
		const response = {};
		for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
			if (credential.response[name]) {
				response[name] = encode(credential.response[name]);
			}
		}
		return JSON.stringify({ id: credential.id, rawId: encode(credential.rawId), type: credential.type, response });
	};

	const says = form.querySelector("[data-part=says]");
	const button = form.querySelector("button");
	let busy = false;
	form.addEventListener("submit", async (event) => {
		event.preventDefault();
		if (busy) {
			return;
		}
		busy = true;
		button.setAttribute("aria-disabled", "true");
		says.textContent = "";
		try {
			const publicKey = readOptions();
			const credential = await (makes
				? navigator.credentials.create({ publicKey })
				: navigator.credentials.get({ publicKey }));
			form.elements.credential.value = write(credential);
			form.submit();
		} catch {
			busy = false;
			button.removeAttribute("aria-disabled");
			says.textContent = form.dataset.failed;
			if (makes) {
				leave();
			}
		}
	});
	addEventListener("pageshow", (event) => {
		if (event.persisted) { // the user came back: the values of the form are used up
			location.reload();
		}
	});
	form.hidden = false;
})();

// The camera page. Its form works without this script. With it, the form takes one photo with the camera. The
// table lists the states in which each part of the form is shown. The text of a state is the form's attribute
// data-STATE.
(() => {
	"use strict";

	const form = document.querySelector("form[data-step=camera]");
	const canMakeFiles = () => {
		try {
			return Boolean(new DataTransfer().items && HTMLCanvasElement.prototype.toBlob);
		} catch {
			return false;
		}
	};
	if (!form || !canMakeFiles()) {
		return;
	}

	const part = {};
	for (const element of form.querySelectorAll("[data-part]")) {
		part[element.dataset.part] = element;
	}
	const input = part.file.querySelector("input");
	const failures = ["denied", "none", "busy", "failed", "small", "unreadable"];
	const shown = {
		stage: ["live", "taken", "sending"],
		video: ["live"],
		guide: ["live"],
		still: ["taken", "sending"],
		file: ["idle", "asking", "live", ...failures], // a browser may never report whether it has a camera
		start: ["idle", "asking", ...failures],
		take: ["live"],
		use: ["taken"],
		retake: ["taken"],
	};
	const longestSide = 1280;
	const shortestSide = 256; // the least that the service accepts (contract 37)
	let stream = null;
	let state = "";

	// show enters a state. The focus moves to the button that most users need next.
	const show = (next, focus) => {
		state = next;
		document.body.dataset.camera = next;
		for (const [name, states] of Object.entries(shown)) {
			part[name].toggleAttribute("hidden", !states.includes(next)); // an SVG has no property of that name
		}
		part.start.setAttribute("aria-disabled", String(next === "asking"));
		part.says.textContent = form.dataset[next] || "";
		part.says.classList.toggle("trouble", failures.includes(next));
		if (focus) {
			part[focus].focus({ preventScroll: true });
			for (const element of [part.stage, part[focus]]) {
				element.scrollIntoView({ block: "nearest" });
			}
		}
	};

	const stop = () => {
		if (stream) {
			stream.getTracks().forEach((track) => track.stop());
		}
		stream = null;
		part.video.srcObject = null;
	};

	const reasons = {
		NotAllowedError: "denied",
		SecurityError: "denied",
		NotFoundError: "none",
		OverconstrainedError: "none",
		NotReadableError: "busy",
		AbortError: "busy",
	};

	const start = async () => {
		if (state === "asking") {
			return;
		}
		if (!navigator.mediaDevices || !navigator.mediaDevices.getUserMedia) {
			show("none", "start");
			return;
		}
		stop();
		show("asking");
		try {
			const given = await navigator.mediaDevices.getUserMedia({
				audio: false,
				video: { facingMode: "user", width: { ideal: 1280 }, height: { ideal: 960 } },
			});
			if (state !== "asking") { // the user has left the page
				given.getTracks().forEach((track) => track.stop());
				return;
			}
			stream = given;
			for (const track of stream.getTracks()) {
				track.addEventListener("ended", () => {
					if (state === "live") {
						stop();
						show("failed", "start");
					}
				});
			}
			part.video.srcObject = stream;
			await part.video.play();
			if (state === "asking") {
				show("live", "take");
			}
		} catch (error) {
			if (state === "asking") { // a file that the user has chosen stays
				stop();
				show(reasons[error.name] || "failed", "start");
			}
		}
	};

	// keep draws a part of a source as the still, and stores it in the form as a JPEG. It returns the next state.
	// A large part is scaled down until its shorter side has the minimum length.
	const keep = async (source, x, y, width, height, failed) => {
		const [longer, shorter] = [Math.max(width, height), Math.min(width, height)];
		const scale = Math.min(1, Math.max(longestSide / longer, shortestSide / shorter));
		const still = part.still;
		still.width = Math.round(width * scale);
		still.height = Math.round(height * scale);
		if (shorter < shortestSide) {
			return "small";
		}
		still.getContext("2d").drawImage(source, x, y, width, height, 0, 0, still.width, still.height);
		for (const quality of [0.95, 0.85, 0.7, 0.5]) {
			const blob = await new Promise((done) => still.toBlob(done, "image/jpeg", quality));
			if (blob && blob.type === "image/jpeg" && blob.size <= Number(form.dataset.max)) {
				const files = new DataTransfer();
				files.items.add(new File([blob], "picture.jpg", { type: "image/jpeg" }));
				input.files = files.files;
				return "taken";
			}
		}
		return failed;
	};

	const shows = (next) => {
		if (next !== "taken") {
			input.value = "";
		}
		show(next, next === "taken" ? "use" : "start");
	};

	// take stores the visible part of the picture: the middle, three to four. For a camera with few pixels it
	// stores more, so that neither side is too short.
	const take = async () => {
		const { videoWidth, videoHeight } = part.video;
		const width = Math.min(videoWidth, Math.max(shortestSide, videoHeight * 3 / 4));
		const height = Math.min(videoHeight, Math.max(shortestSide, videoWidth * 4 / 3));
		part.still.classList.add("mirrored");
		const next = await keep(part.video, (videoWidth - width) / 2, (videoHeight - height) / 2, width, height,
			"failed");
		stop();
		shows(next);
	};

	// choose converts a chosen file of any size and type to a JPEG. The file's metadata, such as the
	// location, is not sent.
	const choose = async () => {
		const file = input.files[0];
		if (!file) {
			return;
		}
		let next = "unreadable";
		try {
			const bitmap = await createImageBitmap(file, { imageOrientation: "from-image" });
			part.still.classList.remove("mirrored");
			next = await keep(bitmap, 0, 0, bitmap.width, bitmap.height, next);
			bitmap.close();
		} catch {
			next = "unreadable";
		}
		stop();
		shows(next);
	};

	input.accept = "image/*";
	input.required = false; // the camera is another way, and screen readers would report an error
	part.file.querySelector("label").textContent = form.dataset.label;
	part.file.querySelector("p").textContent = form.dataset.hint; // any picture, which choose scales down
	input.addEventListener("change", choose);
	part.start.addEventListener("click", start);
	part.retake.addEventListener("click", start);
	part.take.addEventListener("click", take);
	form.addEventListener("submit", (event) => {
		if (state === "taken") {
			show("sending");
		} else {
			event.preventDefault();
		}
	});
	addEventListener("pagehide", stop);
	addEventListener("pageshow", (event) => {
		if (event.persisted) {
			input.value = "";
			show("idle");
		}
	});
	input.value = "";
	show("idle");
})();

// Prints what three.js reads of a .glb: node three_splats.mjs FOLDER_OF_THREE FILE
import fs from 'fs';
globalThis.self = globalThis;
const [three, file] = process.argv.slice(2);
const { GLTFLoader } = await import(`${three}/examples/jsm/loaders/GLTFLoader.js`);
const { GLTFGaussianSplatLoaderExtension } = await import(`${three}/examples/jsm/loaders/GLTFGaussianSplatLoaderExtension.js`);
const raw = fs.readFileSync(file);
const loader = new GLTFLoader();
loader.register(parser => new GLTFGaussianSplatLoaderExtension(parser));
const { scene } = await loader.parseAsync(raw.buffer.slice(raw.byteOffset, raw.byteOffset + raw.length), '');
let splats;
scene.traverse(object => { if (object.isGaussianSplat) splats = object; });
console.log(JSON.stringify(Object.fromEntries(Object.entries(splats.splatGeometry.attributes).map(([name, a]) => [name, [a.itemSize, Array.from(a.array)]]))));

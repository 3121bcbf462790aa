// What terminals read as commands: colours and movements of the cursor, titles of windows, other strings, two-byte codes, and single
// control characters.
const codes = new RegExp([
  String.raw`\u001b\[[0-?]*[ -/]*[@-~]`,
  String.raw`\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?`,
  String.raw`\u001b[PX^_][^\u001b]*(?:\u001b\\)?`,
  String.raw`\u001b[ -/]*[0-~]`,
  String.raw`[\u0000-\u0008\u000b-\u001f\u007f-\u009f]`,
].join('|'), 'g');

/** The text without the codes of terminals. A carriage return begins the line again, as progress bars do. */
export const plainText = (text: string): string =>
  text.replaceAll('\r\n', '\n').split('\n').map((line) => line.slice(line.lastIndexOf('\r') + 1)).join('\n').replace(codes, '');

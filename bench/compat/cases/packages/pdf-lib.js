// pdf-lib
import { PDFDocument, rgb, StandardFonts } from 'pdf-lib';
import { checks } from '../checks.js';

export default checks({
  'document': async () => {
    const document = await PDFDocument.create();
    const page = document.addPage([200, 100]);
    page.drawText('Tea', { x: 10, y: 50, font: await document.embedFont(StandardFonts.Helvetica), color: rgb(1, 0, 0) });
    const data = await document.save();
    const copy = await PDFDocument.load(data);
    return [new TextDecoder().decode(data.slice(0, 8)), copy.getPageCount(), copy.getPage(0).getSize()];
  },
});

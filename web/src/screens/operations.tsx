import { Page } from '../ui/page';
import { Empty } from '../ui/state';

export default function Operations() {
  return <Page title="Operations"><Empty title="This screen is not built yet" /></Page>;
}
